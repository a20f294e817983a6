//! Decides that a damaged directory is refused or tells of its damage, and never forgets quietly.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use super::{OpenError, open, reopened, settle_all};
use crate::adapters::ledger::examples::{START, subject};
use crate::adapters::ledger::{Ledger, LedgerError};
use crate::domain::time::Timestamp;

const STORIES: u64 = 3000;
const NEXT_DAY: Timestamp = Timestamp::from_millis(START.as_millis() + 86_400_000);

/// What is done to a copy, and its name.
type Harm<'a> = (&'a str, &'a dyn Fn(&Path));

/// A good ledger: half of its stories in a sealed generation, half in a young one that has been opened twice.
struct Good(tempfile::TempDir);

impl Good {
    fn new() -> Self {
        let good = Self(tempfile::tempdir().unwrap());
        let root = good.0.path().join("good");
        let ledger = reopened(&root);
        settle_all(&ledger, 0..STORIES / 2, START);
        settle_all(&ledger, STORIES / 2..STORIES - 100, NEXT_DAY);
        ledger.expire(NEXT_DAY).unwrap();
        drop(ledger);
        settle_all(&reopened(&root), STORIES - 100..STORIES, NEXT_DAY);
        good
    }

    /// A copy of it, harmed. Returns how many stories were forgotten, and how many told of damage; or why it was refused.
    fn harmed(&self, harm: impl FnOnce(&Path)) -> Result<(usize, usize), OpenError> {
        let copy = self.0.path().join("copy");
        copy_all(&self.0.path().join("good"), &copy);
        harm(&copy);
        let opened = open(&copy, NEXT_DAY).map(|ledger| {
            let (mut forgotten, mut told) = (0, 0);
            for id in 0..STORIES {
                match ledger.recall(subject(id).ledger_key()) {
                    Ok(Some(recorded)) => assert!(recorded.story.is_settled()),
                    Ok(None) => forgotten += 1,
                    Err(LedgerError::Damaged(_)) => told += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            (forgotten, told)
        });
        fs::remove_dir_all(copy).unwrap();
        opened
    }
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copy = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &copy);
        } else {
            fs::copy(entry.path(), copy).unwrap();
        }
    }
}

fn young(root: &Path) -> PathBuf {
    root.join("generations/00000002")
}

fn database(root: &Path) -> PathBuf {
    young(root).join("db")
}

fn sealed(root: &Path) -> PathBuf {
    root.join("generations/00000001.stories")
}

fn snapshot(root: &Path) -> PathBuf {
    let mut files = fs::read_dir(young(root))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .find(|path| path.display().to_string().contains("/snap."))
        .unwrap()
}

fn cut(path: &Path, by: impl FnOnce(u64) -> u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(by(file.metadata().unwrap().len())).unwrap();
}

fn flip_four_bytes(path: &Path, part: usize, of: usize) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.len() / of * part + 33;
    bytes[at..at + 4].iter_mut().for_each(|byte| *byte ^= 0xff);
    fs::write(path, bytes).unwrap();
}

#[test]
fn p46_a_file_that_is_cut_emptied_or_missing_is_refused_with_its_path_and_the_next_step() {
    let good = Good::new();
    assert_eq!(good.harmed(|_| ()).unwrap(), (0, 0));
    let harms: &[Harm<'_>] = &[
        ("snapshot cut in half", &|root| {
            cut(&snapshot(root), |length| length / 2)
        }),
        ("snapshot emptied", &|root| cut(&snapshot(root), |_| 0)),
        ("database emptied", &|root| cut(&database(root), |_| 0)),
        ("database emptied, no snapshot", &|root| {
            fs::remove_file(snapshot(root)).unwrap();
            cut(&database(root), |_| 0);
        }),
        ("database missing", &|root| {
            fs::remove_file(database(root)).unwrap()
        }),
        ("generation missing", &|root| {
            fs::remove_dir_all(young(root)).unwrap()
        }),
        ("witness emptied", &|root| {
            cut(&young(root).join("witness"), |_| 0)
        }),
        ("sealed file cut", &|root| {
            cut(&sealed(root), |length| length / 2)
        }),
        ("sealed file missing", &|root| {
            fs::remove_file(sealed(root)).unwrap()
        }),
        ("format missing", &|root| {
            fs::remove_file(root.join("format")).unwrap()
        }),
    ];
    for (name, harm) in harms {
        let refused = good.harmed(harm).unwrap_err();
        assert!(
            matches!(refused, OpenError::Damaged { .. }),
            "{name}: {refused}"
        );
        let text = refused.to_string();
        assert!(
            text.contains("/copy/") && text.contains("set it aside"),
            "{name}: {text}"
        );
    }
}

#[test]
fn p46_what_sled_can_do_without_does_no_harm() {
    let good = Good::new();
    let harms: &[Harm<'_>] = &[
        ("half-made snapshot left over", &|root| {
            fs::write(
                young(root).join("snap.7FFFFFFFFFFFFFFF.generating"),
                b"half",
            )
            .unwrap();
        }),
        ("snapshot missing", &|root| {
            fs::remove_file(snapshot(root)).unwrap()
        }),
        ("settings emptied", &|root| {
            cut(&young(root).join("conf"), |_| 0)
        }),
        ("drafts left over", &|root| {
            fs::write(sealed(root).with_extension("new"), b"half").unwrap();
            fs::write(root.join("format.new"), b"half").unwrap();
        }),
    ];
    for (name, harm) in harms {
        assert_eq!(good.harmed(harm).unwrap(), (0, 0), "{name}");
    }
}

#[test]
fn p46_a_cut_or_changed_database_is_refused_or_nothing_is_forgotten() {
    let good = Good::new();
    let mut refusals = 0;
    let mut check = |name: String, harm: &dyn Fn(&Path)| match good.harmed(harm) {
        Ok((forgotten, _)) => assert_eq!(forgotten, 0, "{name}"),
        Err(OpenError::Damaged { .. }) => refusals += 1,
        Err(error) => panic!("{name}: {error}"),
    };
    for part in 0..8 {
        check(format!("cut at {part}/8"), &|root| {
            cut(&database(root), |length| length / 8 * part)
        });
    }
    check("cut by 100 bytes".to_owned(), &|root| {
        cut(&database(root), |length| length - 100)
    });
    for part in 0..16 {
        check(format!("flipped at {part}/16"), &|root| {
            flip_four_bytes(&database(root), part, 16)
        });
        check(format!("flipped at {part}/16, no snapshot"), &|root| {
            fs::remove_file(snapshot(root)).unwrap();
            flip_four_bytes(&database(root), part, 16);
        });
    }
    assert!(refusals > 8, "{refusals}");
}
