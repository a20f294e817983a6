//! Decides which generations there are: the `format` file lists them, and nothing else counts.
//! It does not know what is in a generation.
//!
//! A generation goes through creating → open → sealed → expiring, and each step is on disk before what follows from it.
//! So a directory without its line, or a line without its directory, is told from a step that a crash cut in half.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fault::OpenError;
use crate::domain::time::Timestamp;

const FILE: &str = "format";
/// The layout that this build reads and writes.
const LAYOUT: u32 = 1;

/// The generations, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    layout: u32,
    pub(super) generations: Vec<Line>,
}

/// What the manifest knows of one generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    /// Rises by one; the newest is the greatest.
    pub(super) id: u64,
    /// The beginning of its period.
    pub(super) from: Timestamp,
    pub(super) state: LineState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LineState {
    /// Being made: holds nothing yet.
    Creating,
    /// Takes writes.
    Open,
    /// Takes none any more, and lies in a file of its own.
    Sealed,
    /// All that is worth keeping has been carried forward.
    Expiring,
}

impl Manifest {
    /// One that lists nothing.
    fn empty() -> Self {
        Self {
            layout: LAYOUT,
            generations: Vec::new(),
        }
    }

    /// Reads the one in `directory`; an empty one if it has never been written and nothing else speaks of a ledger.
    pub(super) fn read(directory: &Path) -> Result<Self, OpenError> {
        let path = directory.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return if generations(directory).exists() {
                    Err(OpenError::damaged(
                        &path,
                        "it is missing, but there are generations",
                    ))
                } else {
                    Ok(Self::empty())
                };
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(OpenError::damaged(&path, "it is not text"));
            }
            Err(error) => return Err(OpenError::io(&path, &error)),
        };
        let (body, sum) = text
            .trim_end()
            .rsplit_once('\n')
            .ok_or_else(|| OpenError::damaged(&path, "it is cut short"))?;
        if sum != checksum(body) {
            return Err(OpenError::damaged(&path, "its checksum does not fit"));
        }
        let manifest: Self = serde_json::from_str(body)
            .map_err(|error| OpenError::damaged(&path, &error.to_string()))?;
        if manifest.layout != LAYOUT {
            return Err(OpenError::Layout {
                path,
                found: manifest.layout,
                known: LAYOUT,
            });
        }
        Ok(manifest)
    }

    /// Fails if there is a generation that this does not list: it may be an older copy, and what it lacks would be forgotten.
    pub(super) fn check_for_strangers(&self, directory: &Path) -> Result<(), OpenError> {
        let held = generations(directory);
        let listing = match fs::read_dir(&held) {
            Ok(listing) => listing,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(OpenError::io(&held, &error)),
        };
        for entry in listing {
            let path = entry.map_err(|error| OpenError::io(&held, &error))?.path();
            let mut known = self.generations.iter();
            // A sealed generation is a file of the same name with an ending.
            let name = path.with_extension("");
            if !known.any(|line| generation(directory, line.id) == name) {
                return Err(OpenError::damaged(
                    &path,
                    "the format file does not know it",
                ));
            }
        }
        Ok(())
    }

    /// Replaces the one in `directory`, durably and at once.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        let body = serde_json::to_string(self)?;
        let text = format!("{body}\n{}\n", checksum(&body));
        replace(&directory.join(FILE), text.as_bytes())
    }

    /// Adds a line for a generation that begins at `from`, in state `Creating`, in place of one that came to nothing.
    pub(super) fn add(&mut self, from: Timestamp) -> Line {
        self.generations
            .retain(|line| line.state != LineState::Creating);
        let newest = self.generations.last().map_or(0, |line| line.id);
        let line = Line {
            id: newest.saturating_add(1),
            from,
            state: LineState::Creating,
        };
        self.generations.push(line.clone());
        line
    }

    /// Changes the state of generation `id`.
    pub(super) fn turn(&mut self, id: u64, state: LineState) {
        for line in &mut self.generations {
            if line.id == id {
                line.state = state;
            }
        }
    }

    /// Takes the line of generation `id` out.
    pub(super) fn remove(&mut self, id: u64) {
        self.generations.retain(|line| line.id != id);
    }
}

/// Where the generations are.
pub(super) fn generations(directory: &Path) -> PathBuf {
    directory.join("generations")
}

/// Where generation `id` is.
pub(super) fn generation(directory: &Path, id: u64) -> PathBuf {
    generations(directory).join(format!("{id:08}"))
}

/// Writes `bytes` to `path` so that after a crash it holds either its old content or all of the new.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}

/// Makes the names in `directory` durable.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Makes the content of every file in `directory` durable.
pub(super) fn sync_files(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_file() {
            File::open(path)?.sync_all()?;
        }
    }
    Ok(())
}

fn checksum(body: &str) -> String {
    format!("{:08x}", crc32fast::hash(body.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Timestamp = Timestamp::from_millis(1_792_540_800_000);

    fn written() -> (tempfile::TempDir, Manifest) {
        let directory = tempfile::tempdir().unwrap();
        let mut manifest = Manifest::empty();
        for _ in 0..2 {
            let id = manifest.add(FROM).id;
            manifest.turn(id, LineState::Open);
            fs::create_dir_all(generation(directory.path(), id)).unwrap();
        }
        manifest.turn(1, LineState::Sealed);
        manifest.write(directory.path()).unwrap();
        (directory, manifest)
    }

    #[test]
    fn it_is_read_as_it_was_written_and_its_text_is_stable() {
        let (directory, manifest) = written();
        assert_eq!(Manifest::read(directory.path()).unwrap(), manifest);
        let text = fs::read_to_string(directory.path().join(FILE)).unwrap();
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_new_directory_has_an_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(directory.path()).unwrap(), Manifest::empty());
    }

    #[test]
    fn p46_a_changed_byte_a_cut_or_a_missing_file_is_damage() {
        let (directory, _) = written();
        let path = directory.path().join(FILE);
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            for bad in [&bad, &good[..at]] {
                fs::write(&path, bad).unwrap();
                match Manifest::read(directory.path()) {
                    Err(OpenError::Damaged { .. }) => {}
                    // The last line break says nothing.
                    other => assert_eq!(at, good.len() - 1, "{other:?}"),
                }
            }
        }
        fs::remove_file(&path).unwrap();
        let missing = Manifest::read(directory.path()).unwrap_err();
        assert!(matches!(missing, OpenError::Damaged { .. }), "{missing}");
    }

    #[test]
    fn a_later_layout_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let mut manifest = Manifest::empty();
        manifest.layout = 2;
        manifest.write(directory.path()).unwrap();
        let refused = Manifest::read(directory.path()).unwrap_err();
        assert!(matches!(
            refused,
            OpenError::Layout {
                found: 2,
                known: 1,
                ..
            }
        ));
    }

    #[test]
    fn a_generation_that_is_not_listed_is_damage() {
        let (directory, manifest) = written();
        manifest.check_for_strangers(directory.path()).unwrap();
        for name in ["00000003", "00000003.stories", "notes"] {
            let stranger = generations(directory.path()).join(name);
            fs::write(&stranger, []).unwrap();
            let refused = manifest.check_for_strangers(directory.path()).unwrap_err();
            assert!(matches!(refused, OpenError::Damaged { path, .. } if path == stranger));
            fs::remove_file(stranger).unwrap();
        }
    }

    #[test]
    fn an_id_is_used_again_only_if_it_came_to_nothing() {
        let (_directory, mut manifest) = written();
        assert_eq!(manifest.add(FROM).id, 3);
        assert_eq!(manifest.add(FROM).id, 3);
        manifest.turn(3, LineState::Open);
        assert_eq!(manifest.add(FROM).id, 4);
        manifest.remove(1);
        assert_eq!(manifest.generations.len(), 3);
    }
}
