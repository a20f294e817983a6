//! Decides how a generation that takes no more writes lies in one flat file, and how a story is found in it.
//! It does not know where the stories came from, nor how they are encoded.
//!
//! sled gives back neither disk nor memory: its file keeps every version that was ever written, and its cache forgets a page
//! only after 64 accesses to one of its 256 parts. So the newest version of each story is copied out, and the sled is removed.
//! The file, all numbers big-endian:
//!
//! | part | what |
//! | --- | --- |
//! | stories | each: length (4), CRC-32 of the frame (4), the frame as `block` packs it |
//! | index | pages of up to 128 entries in the order of their keys, each: key (16), place of the story (8); then CRC-32 (4) |
//! | tail | what is kept in memory: the first key of each page, a filter over all keys, and totals; as postcard |
//! | end | place of the index (8), place of the tail (8), CRC-32 of the tail and these two (4), `sendonce` (8) |
//!
//! An absent key costs no read but in one case of 120, a present one two. Memory: about 1.4 bytes a story.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::block::{self, Frame};
use super::fault::{Fault, OpenError};
use super::filter::Filter;
use super::manifest;
use crate::domain::idempotency_key::LedgerKey;
use crate::domain::time::Timestamp;

const PAGE_ENTRIES: usize = 128;
const ENTRY: usize = 24;
const PAGE: usize = PAGE_ENTRIES * ENTRY + 4;
const END: usize = 28;
const MAGIC: &[u8; 8] = b"sendonce";
/// Read at once in the hope that a story is no longer.
const LIKELY: usize = 1024;

/// One open file.
#[derive(Debug)]
pub(super) struct Sealed {
    file: File,
    index: u64,
    tail: Tail,
}

#[derive(Debug, Serialize, Deserialize)]
struct Tail {
    entries: u64,
    last_write: Timestamp,
    first_keys: Vec<LedgerKey>,
    filter: Filter,
}

/// Writes a file, story by story.
#[derive(Debug)]
pub(super) struct Sealing {
    file: BufWriter<File>,
    place: u64,
    entries: Vec<(LedgerKey, u64)>,
}

impl Sealing {
    /// Begins the file at `path`, in place of what is there.
    pub(super) fn begin(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: BufWriter::with_capacity(1 << 16, File::create(path)?),
            place: 0,
            entries: Vec::new(),
        })
    }

    /// Adds a story. Each key may be added once.
    pub(super) fn add(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let bytes = block::bytes(frame).map_err(io::Error::other)?;
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        self.entries.push((frame.key, self.place));
        self.put(&length.to_be_bytes())?;
        self.put(&crc32fast::hash(&bytes).to_be_bytes())?;
        self.put(&bytes)
    }

    /// Writes what is needed to find the stories, and makes all of it durable.
    pub(super) fn finish(mut self, last_write: Timestamp) -> io::Result<()> {
        let index = self.place;
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable();
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let mut tail = Tail {
            entries: count,
            last_write,
            first_keys: Vec::new(),
            filter: Filter::with_room_for(count),
        };
        for chunk in entries.chunks(PAGE_ENTRIES) {
            let mut page = Vec::with_capacity(PAGE);
            for (key, place) in chunk {
                tail.filter.insert(*key);
                page.extend_from_slice(&key.0);
                page.extend_from_slice(&place.to_be_bytes());
            }
            tail.first_keys.extend(chunk.first().map(|(key, _)| *key));
            let sum = crc32fast::hash(&page);
            page.extend_from_slice(&sum.to_be_bytes());
            self.put(&page)?;
        }
        let mut end = postcard::to_stdvec(&tail).map_err(io::Error::other)?;
        end.extend_from_slice(&index.to_be_bytes());
        end.extend_from_slice(&self.place.to_be_bytes());
        let sum = crc32fast::hash(&end);
        end.extend_from_slice(&sum.to_be_bytes());
        end.extend_from_slice(MAGIC);
        self.put(&end)?;
        self.file.into_inner()?.sync_all()
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.place = self.place.saturating_add(bytes.len() as u64);
        self.file.write_all(bytes)
    }
}

impl Sealed {
    /// Opens the file at `path` and checks its tail.
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(OpenError::damaged(path, "it is missing"));
            }
            Err(error) => return Err(OpenError::io(path, &error)),
        };
        let (index, tail) = read_tail(&file).map_err(|fault| fault.at(path))?;
        Ok(Self { file, index, tail })
    }

    /// Stories in it.
    pub(super) fn entries(&self) -> u64 {
        self.tail.entries
    }

    /// The latest moment at which any of them was written.
    pub(super) fn last_write(&self) -> Timestamp {
        self.tail.last_write
    }

    /// Whether it holds a story under `key`.
    pub(super) fn holds(&self, key: LedgerKey) -> Result<bool, Fault> {
        Ok(self.place(key)?.is_some())
    }

    /// What `read` makes of the story under `key`.
    pub(super) fn find<T>(
        &self,
        key: LedgerKey,
        read: impl FnOnce(&Frame<'_>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let Some(place) = self.place(key)? else {
            return Ok(None);
        };
        let mut story = BufReader::with_capacity(LIKELY, self.from(place));
        let bytes = next_story(&mut story)?;
        let frame = block::frame(&bytes, 0).map_err(Fault::Damaged)?;
        if frame.key != key {
            return Err(Fault::Damaged("a story lies in another's place".to_owned()));
        }
        read(&frame).map(Some)
    }

    /// Calls `visit` with every story, until it returns false.
    pub(super) fn each(
        &self,
        mut visit: impl FnMut(Frame<'_>) -> Result<bool, Fault>,
    ) -> Result<(), Fault> {
        let mut stories = BufReader::with_capacity(1 << 16, self.from(0));
        for _ in 0..self.tail.entries {
            let bytes = next_story(&mut stories)?;
            if !visit(block::frame(&bytes, 0).map_err(Fault::Damaged)?)? {
                break;
            }
        }
        Ok(())
    }

    fn place(&self, key: LedgerKey) -> Result<Option<u64>, Fault> {
        if !self.tail.filter.may_hold(key) {
            return Ok(None);
        }
        let behind = self.tail.first_keys.partition_point(|first| *first <= key);
        let Some(number) = behind.checked_sub(1) else {
            return Ok(None);
        };
        let before = number.saturating_mul(PAGE_ENTRIES) as u64;
        let entries = self.tail.entries.saturating_sub(before);
        let entries = usize::try_from(entries).unwrap_or(PAGE_ENTRIES);
        let mut page = vec![0; entries.min(PAGE_ENTRIES) * ENTRY + 4];
        let at = self.index.saturating_add((number * PAGE) as u64);
        self.file.read_exact_at(&mut page, at)?;
        let entries = checked(&page, "a page of the index")?
            .as_chunks::<ENTRY>()
            .0;
        let found = entries.binary_search_by(|entry| key_of(entry).cmp(&key));
        Ok(found.ok().and_then(|at| entries.get(at)).map(place_of))
    }

    fn from(&self, place: u64) -> Reading<'_> {
        Reading {
            file: &self.file,
            place,
        }
    }
}

/// Moves the finished file at `draft` to `path`, durably.
pub(super) fn publish(draft: &Path, path: &Path) -> io::Result<()> {
    fs::rename(draft, path)?;
    manifest::sync_directory(path.parent().unwrap_or(Path::new(".")))
}

/// Reads a file from a place on, without moving anyone else's.
struct Reading<'a> {
    file: &'a File,
    place: u64,
}

impl Read for Reading<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.place)?;
        self.place = self.place.saturating_add(read as u64);
        Ok(read)
    }
}

fn next_story(stories: &mut impl Read) -> Result<Vec<u8>, Fault> {
    let (mut length, mut sum) = ([0; 4], [0; 4]);
    stories.read_exact(&mut length).map_err(cut)?;
    stories.read_exact(&mut sum).map_err(cut)?;
    let length = u32::from_be_bytes(length);
    let mut bytes = Vec::new();
    let read = stories.take(u64::from(length)).read_to_end(&mut bytes)?;
    if u32::try_from(read) != Ok(length) || crc32fast::hash(&bytes).to_be_bytes() != sum {
        return Err(Fault::Damaged(
            "a story does not fit its checksum".to_owned(),
        ));
    }
    Ok(bytes)
}

fn read_tail(file: &File) -> Result<(u64, Tail), Fault> {
    let length = file.metadata()?.len();
    let mut end = [0; END];
    let end_at = length
        .checked_sub(END as u64)
        .ok_or_else(|| Fault::Damaged("it is cut short".to_owned()))?;
    file.read_exact_at(&mut end, end_at).map_err(cut)?;
    let (index, rest) = number(&end)?;
    let (tail_at, _) = number(rest)?;
    let tail_length = length
        .checked_sub(tail_at)
        .filter(|_| end.ends_with(MAGIC) && index <= tail_at)
        .ok_or_else(|| Fault::Damaged("it does not end as it should".to_owned()))?;
    let mut tail = vec![0; usize::try_from(tail_length).unwrap_or(0)];
    file.read_exact_at(&mut tail, tail_at).map_err(cut)?;
    let summed = tail.len().saturating_sub(MAGIC.len());
    let tail = checked(tail.get(..summed).unwrap_or_default(), "its tail")?;
    let tail = postcard::from_bytes(tail).map_err(|error| Fault::Damaged(error.to_string()))?;
    Ok((index, tail))
}

/// The bytes before a checksum that fits them.
fn checked<'a>(bytes: &'a [u8], what: &str) -> Result<&'a [u8], Fault> {
    match bytes.split_last_chunk::<4>() {
        Some((bytes, sum)) if crc32fast::hash(bytes).to_be_bytes() == *sum => Ok(bytes),
        Some(_) | None => Err(Fault::Damaged(format!("{what} does not fit its checksum"))),
    }
}

fn number(bytes: &[u8]) -> Result<(u64, &[u8]), Fault> {
    match bytes.split_first_chunk::<8>() {
        Some((number, rest)) => Ok((u64::from_be_bytes(*number), rest)),
        None => Err(Fault::Damaged("it is cut short".to_owned())),
    }
}

fn cut(error: io::Error) -> Fault {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        Fault::Damaged("it is cut short".to_owned())
    } else {
        Fault::Disk(error.to_string())
    }
}

fn key_of(entry: &[u8; ENTRY]) -> LedgerKey {
    LedgerKey(entry.first_chunk().copied().unwrap_or_default())
}

fn place_of(entry: &[u8; ENTRY]) -> u64 {
    entry.last_chunk().copied().map_or(0, u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: Timestamp = Timestamp::from_millis(1_792_567_620_000);

    fn key(number: u32) -> LedgerKey {
        LedgerKey::of(b"test", &number.to_be_bytes())
    }

    /// A story that tells its number, long enough now and then to need a second read.
    fn story(number: u32) -> Vec<u8> {
        let length = if number.is_multiple_of(50) { 3000 } else { 30 };
        number
            .to_be_bytes()
            .into_iter()
            .cycle()
            .take(length)
            .collect()
    }

    fn written(stories: u32) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("1.stories");
        let draft = directory.path().join("1.new");
        let mut sealing = Sealing::begin(&draft).unwrap();
        for number in 0..stories {
            let frame = Frame {
                key: key(number),
                at: LAST,
                open: number.is_multiple_of(3),
                story: &story(number),
            };
            sealing.add(&frame).unwrap();
        }
        sealing.finish(LAST).unwrap();
        publish(&draft, &path).unwrap();
        (directory, path)
    }

    fn find(sealed: &Sealed, number: u32) -> Result<Option<Vec<u8>>, Fault> {
        sealed.find(key(number), |frame| Ok(frame.story.to_vec()))
    }

    #[test]
    fn every_story_is_found_and_no_other() {
        for stories in [0, 1, 127, 128, 129, 1000] {
            let (_directory, path) = written(stories);
            let sealed = Sealed::open(&path).unwrap();
            assert_eq!(sealed.entries(), u64::from(stories));
            assert_eq!(sealed.last_write(), LAST);
            for number in 0..stories {
                assert_eq!(find(&sealed, number).unwrap(), Some(story(number)));
                assert!(sealed.holds(key(number)).unwrap());
            }
            for number in stories..stories + 1000 {
                assert_eq!(find(&sealed, number).unwrap(), None);
            }
        }
    }

    #[test]
    fn all_stories_are_walked_in_the_order_they_were_added() {
        let (_directory, path) = written(300);
        let sealed = Sealed::open(&path).unwrap();
        let mut next = 0;
        sealed
            .each(|frame| {
                assert_eq!(frame.key, key(next));
                assert_eq!(frame.open, next.is_multiple_of(3));
                assert_eq!(frame.story, story(next));
                next += 1;
                Ok(next < 250)
            })
            .unwrap();
        assert_eq!(next, 250);
    }

    #[test]
    fn p46_a_changed_byte_never_makes_it_forget() {
        let (_directory, path) = written(130);
        let good = fs::read(&path).unwrap();
        let (mut refused, mut told) = (0, 0);
        // Every byte would take minutes.
        for at in (0..good.len()).step_by(97) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            let Ok(sealed) = Sealed::open(&path) else {
                refused += 1;
                continue;
            };
            for number in 0..130 {
                match find(&sealed, number) {
                    Ok(found) => assert_eq!(found, Some(story(number)), "byte {at}"),
                    Err(Fault::Damaged(_)) => told += 1,
                    Err(Fault::Disk(reason)) => panic!("{reason}"),
                }
            }
        }
        assert!(refused > 0 && told > 0, "{refused} refused, {told} told");
    }

    #[test]
    fn p46_a_cut_file_is_refused() {
        let (_directory, path) = written(200);
        let good = fs::read(&path).unwrap();
        for length in (0..good.len()).step_by(31) {
            fs::write(&path, &good[..length]).unwrap();
            let refused = Sealed::open(&path).map(drop).unwrap_err();
            assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
        }
        fs::remove_file(&path).unwrap();
        assert!(matches!(
            Sealed::open(&path),
            Err(OpenError::Damaged { .. })
        ));
    }
}
