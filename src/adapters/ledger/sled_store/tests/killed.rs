//! Decides that whatever was acknowledged is there after a kill, and that the next process gets the directory.
//!
//! The victim is this test's own binary, started again with `VICTIM` set to the ledger's directory.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::{env, thread};

use super::reopened;
use crate::adapters::ledger::Ledger;
use crate::adapters::ledger::examples::{START, answered, block, recall, started};
use crate::domain::attempt::Verdict;

const VICTIM: &str = "SENDONCE_TEST_LEDGER_VICTIM";
const WRITERS: u64 = 16;

/// Writes stories until it is killed, and tells of each one that is durable.
#[test]
fn victim() {
    let Ok(argument) = env::var(VICTIM) else {
        return;
    };
    let (directory, first) = argument.rsplit_once(' ').unwrap();
    let first: u64 = first.parse().unwrap();
    let ledger = reopened(Path::new(directory));
    // The harness has begun a line of its own, which would swallow the first one of ours.
    writeln!(std::io::stdout()).unwrap();
    thread::scope(|threads| {
        for writer in 0..WRITERS {
            let ledger = &ledger;
            threads.spawn(move || {
                for id in (first + writer..).step_by(16) {
                    let open = block(ledger.persist(None, started(id, START))).unwrap();
                    let settled = answered(id, START, Verdict::Accepted);
                    block(ledger.persist(Some(open.story), settled)).unwrap();
                    writeln!(std::io::stdout().lock(), "durable {id}").unwrap();
                }
            });
        }
    });
}

#[test]
fn p49_what_was_acknowledged_before_a_kill_is_there_for_the_next_process_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut durable = Vec::new();
    for round in 0..5_u64 {
        let first = round * 1_000_000;
        let mut victim = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "--test-threads=1"])
            .arg(
                concat!(module_path!(), "::victim")
                    .split_once("::")
                    .unwrap()
                    .1,
            )
            .env(VICTIM, format!("{} {first}", directory.path().display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (told, heard) = mpsc::channel();
        let output = BufReader::new(victim.stdout.take().unwrap());
        let reader = thread::spawn(move || {
            for line in output.lines() {
                let line = line.unwrap();
                if let Some(id) = line.strip_prefix("durable ") {
                    told.send(id.parse::<u64>().unwrap()).unwrap();
                }
            }
        });
        durable.extend(
            heard
                .iter()
                .take(200 + 37 * usize::try_from(round).unwrap()),
        );
        victim.kill().unwrap();
        durable.extend(heard.iter());
        reader.join().unwrap();

        let ledger = reopened(directory.path());
        for id in &durable {
            assert!(
                recall(&ledger, *id).is_some_and(|story| story.is_settled()),
                "{id}"
            );
        }
        // Each writer may have had one more story on its way, and none has more than was begun.
        let seen = ledger.size().entries;
        let told = durable.len() as u64;
        assert!(
            (told..=told + (round + 1) * WRITERS).contains(&seen),
            "{seen} of {told}"
        );
        victim.wait().unwrap();
    }
}

/// Whoever is being started by another thread just then holds a copy of every open file, its lock included.
#[test]
fn a_database_whose_file_is_still_held_is_waited_for() {
    use std::os::unix::fs::MetadataExt as _;

    let directory = tempfile::tempdir().unwrap();
    drop(reopened(directory.path()));
    let file = File::open(directory.path().join("generations/00000001/db")).unwrap();
    file.lock().unwrap();
    let inode = format!(":{} ", file.metadata().unwrap().ino());
    thread::scope(|threads| {
        let opening = threads.spawn(|| drop(reopened(directory.path())));
        let waits = |line: &str| line.contains("->") && line.contains(&inode);
        while !fs::read_to_string("/proc/locks")
            .unwrap()
            .lines()
            .any(waits)
        {
            assert!(!opening.is_finished(), "it did not wait");
            thread::yield_now();
        }
        drop(file);
        opening.join().unwrap();
    });
}
