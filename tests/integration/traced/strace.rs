//! Runs a program under `strace` and reads what it wrote: each system call with where it began and where it ended in the
//! one order in which the tracer saw them. It knows nothing of what the calls mean.
//!
//! The order can be trusted for what it is used for: a call's beginning is seen before the kernel carries it out, its end
//! before the program goes on. So if one call waited for the other's end, they stand in that order.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::waiting::say_left_out;

/// One system call, of any thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name: `fdatasync`.
    pub name: String,
    /// Its arguments as strace writes them: descriptors with what they lead to, text with C's escapes.
    pub arguments: String,
    /// Where it began.
    pub begun: usize,
    /// Where it ended well; `None` if it failed, or had not ended.
    pub ended: Option<usize>,
}

impl Call {
    /// The file or socket behind its first argument: `/ledger/db` of `9</ledger/db>`.
    pub fn target(&self) -> &str {
        let inside = self.arguments.split_once('<').map(|(_, rest)| rest);
        let target = inside.and_then(|rest| rest.split_once('>'));
        target.map_or("", |(target, _)| target)
    }

    /// The number of the descriptor that is its first argument: 9 of `9</ledger/db>`.
    pub fn descriptor(&self) -> &str {
        let digits = self.arguments.bytes().take_while(u8::is_ascii_digit);
        &self.arguments[..digits.count()]
    }
}

/// Where a trace is written.
pub struct Strace {
    file: PathBuf,
}

impl Strace {
    /// One that writes to `file`. None, with a line on the terminal, where nothing can be traced.
    pub fn to(file: &Path) -> Option<Self> {
        let tried = Command::new("strace")
            .args(["-f", "-D", "-o", "/dev/null", "true"])
            .output();
        let why = match tried {
            Ok(output) if output.status.success() => {
                let file = file.to_owned();
                return Some(Self { file });
            }
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        let wanted = std::env::var("SENDONCE_TEST_STRACE").is_ok_and(|value| value == "1");
        assert!(!wanted, "strace: {why}");
        say_left_out(&format!("needs strace (apt-get install strace): {why}"));
        None
    }

    /// The same command under strace, which follows `calls`. The process that is started is the program's own: signals
    /// reach it, and the tracer ends after it.
    pub fn over(&self, command: &Command, calls: &str) -> Command {
        let mut traced = Command::new("strace");
        traced
            .args(["-f", "-D", "-y", "-s", "4000000", "-e"])
            .arg(format!("trace={calls}"))
            .arg("-o")
            .arg(&self.file)
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => traced.env(name, value),
                None => traced.env_remove(name),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            traced.current_dir(directory);
        }
        traced
    }

    /// What was written so far.
    pub fn text(&self) -> String {
        let bytes = std::fs::read(&self.file).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The calls of a trace, in the order in which they began.
pub fn calls(trace: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut unfinished: Vec<(&str, usize)> = Vec::new();
    for (place, line) in trace.lines().enumerate() {
        let Some((thread, said)) = thread_and_said(line) else {
            continue;
        };
        if let Some(resumed) = said.strip_prefix("<... ") {
            let at = unfinished.iter().position(|(of, _)| *of == thread);
            if let Some(at) = at {
                let (_, call) = unfinished.swap_remove(at);
                calls[call].ended = went_well(resumed).then_some(place);
            }
            continue;
        }
        let Some((name, rest)) = said.split_once('(') else {
            continue;
        };
        let is_name = name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_name {
            continue;
        }
        let (arguments, ended) = match rest.strip_suffix(" <unfinished ...>") {
            Some(arguments) => {
                unfinished.push((thread, calls.len()));
                (arguments, None)
            }
            None => {
                let arguments = rest.rsplit_once(") ").map_or(rest, |(before, _)| before);
                (arguments, went_well(rest).then_some(place))
            }
        };
        calls.push(Call {
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            begun: place,
            ended,
        });
    }
    calls
}

/// Whether a trace holds the end of this process, with exit code 0.
pub fn ended_well(trace: &str, pid: u32) -> bool {
    let pid = pid.to_string();
    let end = Some((pid.as_str(), "+++ exited with 0 +++"));
    trace.lines().any(|line| thread_and_said(line) == end)
}

/// A line's thread and what it says. The thread's number is padded to five places.
fn thread_and_said(line: &str) -> Option<(&str, &str)> {
    let (thread, said) = line.trim_start().split_once(' ')?;
    Some((thread, said.trim_start()))
}

/// Whether a call's line ends in a result that is no error: `= 0`, `= 4096`, not `= -1 EIO (...)`, not `= ?`.
fn went_well(line: &str) -> bool {
    let result = line.rsplit_once(" = ").map(|(_, result)| result);
    result.is_some_and(|result| result.starts_with(|first: char| first.is_ascii_digit()))
}

#[test]
fn a_trace_is_read_with_calls_that_threads_interrupt_each_other_in() {
    let trace = r#"11 pwrite64(9</l/db>, "a) = 1 \"POST", 13, 0) = 13
12 fdatasync(9</l/db> <unfinished ...>
11 --- SIGCHLD {si_signo=SIGCHLD} ---
11 sendto(7<socket:[3]>, "POST /v1", 8, MSG_NOSIGNAL, NULL, 0 <unfinished ...>
12 <... fdatasync resumed>)                = 0
13 fdatasync(9</l/db>)                     = -1 EIO (Input/output error)
11 <... sendto resumed>)                   = 8
11 +++ exited with 0 +++
"#;
    let read: Vec<_> = calls(trace)
        .into_iter()
        .map(|call| (call.name, call.begun, call.ended))
        .collect();
    let call = |name: &str, begun, ended| (name.to_owned(), begun, ended);
    assert_eq!(
        read,
        [
            call("pwrite64", 0, Some(0)),
            call("fdatasync", 1, Some(4)),
            call("sendto", 3, Some(6)),
            call("fdatasync", 5, None),
        ]
    );
    assert_eq!(calls(trace)[0].target(), "/l/db");
    assert_eq!(calls(trace)[2].descriptor(), "7");
}

#[test]
fn the_end_of_a_process_is_found_whatever_the_width_of_its_number() {
    for (pid, line) in [
        (7, "7     +++ exited with 0 +++"),
        (4711, "4711  +++ exited with 0 +++"),
        (47111, "47111 +++ exited with 0 +++"),
        (4_000_111, "4000111 +++ exited with 0 +++"),
    ] {
        assert!(ended_well(line, pid), "{line}");
        assert!(!ended_well(line, pid + 1), "{line}");
    }
    assert!(!ended_well("4711  +++ exited with 1 +++", 4711));
}
