//! Reads the tree: the Rust files, the paths that their code mentions, the names that git knows. It judges none of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A path somewhere in the code: in a `use` line, or written out.
#[derive(Debug)]
pub struct Mention {
    pub file: String,
    pub line: usize,
    /// The module that it stands in, from `src` down.
    pub module: Vec<String>,
    /// Inside a module of unit tests.
    pub in_tests: bool,
    /// The path, without `crate`, `self` and `super` if it is ours.
    pub path: Vec<String>,
    /// Whether it leads into this crate.
    pub ours: bool,
}

impl std::fmt::Display for Mention {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.path.join("::"))
    }
}

/// Every path in the code under `src`. Read once for all tests.
pub fn mentions() -> impl Iterator<Item = &'static Mention> {
    static MENTIONS: OnceLock<Vec<Mention>> = OnceLock::new();
    let all = MENTIONS.get_or_init(|| {
        let files = rust_files().into_iter();
        files
            .filter(|file| file.starts_with("src/"))
            .flat_map(|file| mentions_in(&file, &read(&file)))
            .collect()
    });
    all.iter()
}

pub fn mentions_in(file: &str, text: &str) -> Vec<Mention> {
    let of_file: Vec<String> = file
        .trim_start_matches("src/")
        .trim_end_matches(".rs")
        .split('/')
        .filter(|part| !["lib", "mod"].contains(part))
        .map(str::to_owned)
        .collect();
    let tokens = tokens(text);
    let mut found = Vec::new();
    // Modules written inside the file, each with the depth of braces at which it ends.
    let mut inside: Vec<(String, usize)> = Vec::new();
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                inside.retain(|(_, ends)| *ends <= depth);
            }
            "mod" if tokens.get(at + 2).is_some_and(|next| next.text == "{") => {
                inside.push((tokens[at + 1].text.clone(), depth + 1));
            }
            word if is_word(word) => {
                let module: Vec<String> = of_file
                    .iter()
                    .cloned()
                    .chain(inside.iter().map(|(name, _)| name.clone()))
                    .collect();
                let in_tests = module.iter().any(|part| part == "tests");
                let (paths, next) = path_at(&tokens, at);
                for path in paths {
                    let (path, ours) = resolve(&module, path);
                    let (file, module) = (file.to_owned(), module.clone());
                    found.push(Mention {
                        file,
                        line: token.line,
                        module,
                        in_tests,
                        path,
                        ours,
                    });
                }
                at = next;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The path that begins at a word, a group in it unfolded, and where the code goes on.
fn path_at(tokens: &[Token], at: usize) -> (Vec<Vec<String>>, usize) {
    let mut path = vec![tokens[at].text.clone()];
    let mut next = at + 1;
    while tokens.get(next).is_some_and(|token| token.text == "::") {
        match tokens.get(next + 1).map(|token| token.text.as_str()) {
            Some(word) if is_word(word) => {
                path.push(word.to_owned());
                next += 2;
            }
            Some("{") => {
                let mut paths = Vec::new();
                next += 2;
                while tokens.get(next).is_some_and(|token| token.text != "}") {
                    if is_word(&tokens[next].text) {
                        let (inner, after) = path_at(tokens, next);
                        paths.extend(inner.into_iter().map(|rest| [path.clone(), rest].concat()));
                        next = after;
                    } else {
                        next += 1;
                    }
                }
                return (paths, next + 1);
            }
            _ => break,
        }
    }
    (vec![path], next)
}

/// A path from the crate's root, if it leads into the crate.
fn resolve(module: &[String], path: Vec<String>) -> (Vec<String>, bool) {
    let ups = path.iter().take_while(|part| *part == "super").count();
    match path.first().map(String::as_str) {
        Some("crate" | "sendonce") => (path[1..].to_vec(), true),
        Some("self") if path.len() > 1 => ([module, &path[1..]].concat(), true),
        Some("super") => {
            let above = &module[..module.len().saturating_sub(ups)];
            ([above, &path[ups..]].concat(), true)
        }
        _ => (path, false),
    }
}

/// A word or a sign of the code.
#[derive(Debug)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The code without comments, strings and characters.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    // Where the last look at the line was, and which it was.
    let (mut counted, mut line) = (0, 1);
    while let Some(first) = rest.chars().next() {
        let at = text.len() - rest.len();
        line += text[counted..at].matches('\n').count();
        counted = at;
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("/*") {
            rest = rest.find("*/").map_or("", |end| &rest[end + 2..]);
        } else if let Some(after) = after_string(rest) {
            rest = after;
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest
                .find(|next: char| !next.is_alphanumeric() && next != '_')
                .unwrap_or(rest.len());
            tokens.push(Token {
                text: rest[..end].to_owned(),
                line,
            });
            rest = &rest[end..];
        } else {
            let sign = if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            if !first.is_whitespace() {
                tokens.push(Token {
                    text: rest[..sign].to_owned(),
                    line,
                });
            }
            rest = &rest[sign..];
        }
    }
    tokens
}

/// What follows a string or a character, if one begins here. A lifetime is neither.
fn after_string(rest: &str) -> Option<&str> {
    let plain = rest.trim_start_matches(['b', 'c']);
    if rest.len() - plain.len() > 1 {
        return None;
    }
    if let Some(raw) = plain.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let body = raw[hashes..].strip_prefix('"')?;
        let closing = format!("\"{}", "#".repeat(hashes));
        return Some(
            body.find(&closing)
                .map_or("", |end| &body[end + closing.len()..]),
        );
    }
    let quote = plain
        .chars()
        .next()
        .filter(|quote| ['"', '\''].contains(quote))?;
    let body = &plain[1..];
    if quote == '\'' && !body.starts_with('\\') && body.chars().nth(1) != Some('\'') {
        return None;
    }
    let mut escaped = false;
    let end = body.find(|next: char| {
        let closes = next == quote && !escaped;
        escaped = next == '\\' && !escaped;
        closes
    });
    Some(end.map_or("", |end| &body[end + 1..]))
}

/// A name's words, in lower case: `HttpHandler` and `http_handler` are `http`, `handler`.
pub fn words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter == '-' || letter == '.' || letter.is_uppercase() {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().expect("one").extend(letter.to_lowercase());
        }
    }
    words.into_iter().filter(|word| !word.is_empty())
}

pub fn rooted(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

pub fn read(file: &str) -> String {
    fs::read_to_string(rooted(file)).unwrap_or_else(|why| panic!("{file}: {why}"))
}

/// The Rust files under `src` and `tests`, from the repository's root.
pub fn rust_files() -> BTreeSet<String> {
    fn walk(folder: &str, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(rooted(folder)).unwrap_or_else(|why| panic!("{folder}: {why}")) {
            let entry = entry.expect("an entry");
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().expect("a type").is_dir() {
                walk(&path, found);
            } else if path.ends_with(".rs") {
                found.insert(path);
            }
        }
    }
    let mut found = BTreeSet::new();
    walk("src", &mut found);
    walk("tests", &mut found);
    found
}

/// What git knows. Empty outside a repository: an unpacked archive is nobody's working copy.
pub fn tracked_files() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(rooted(""))
        .output();
    listed.map_or_else(
        |_| Vec::new(),
        |listed| {
            let names = String::from_utf8_lossy(&listed.stdout);
            names
                .split('\0')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect()
        },
    )
}

#[test]
fn a_path_is_found_however_it_is_written() {
    let code = r##"
        //! crate::comment::one
        use crate::domain::{time::Timestamp, retry::{self, Backoff}};
        /* crate::comment::two */
        fn plain() -> super::sibling::Thing { "crate::string"; r#"crate::raw "string""#; 'x'; crate::cli::run::<'a>() }
        mod tests {
            use super::*;
            use super::super::order::Turn;
        }
        fn after() { self::inner::call(); tokio::spawn(()) }
    "##;

    let mentions = mentions_in("src/pipeline/intake/mod.rs", code);
    let found: BTreeSet<String> = mentions
        .iter()
        .filter(|mention| mention.ours)
        .map(|mention| {
            format!(
                "{} in {}",
                mention.path.join("::"),
                mention.module.join("::")
            )
        })
        .collect();

    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        [
            "cli::run in pipeline::intake",
            "domain::retry::Backoff in pipeline::intake",
            "domain::retry::self in pipeline::intake",
            "domain::time::Timestamp in pipeline::intake",
            "pipeline::intake in pipeline::intake::tests",
            "pipeline::intake::inner::call in pipeline::intake",
            "pipeline::order::Turn in pipeline::intake::tests",
            "pipeline::sibling::Thing in pipeline::intake",
        ]
    );
    let spawn = mentions
        .iter()
        .find(|mention| mention.path == ["tokio", "spawn"])
        .expect("found");
    assert_eq!((spawn.line, spawn.in_tests, spawn.ours), (10, false, false));
}

#[test]
fn a_name_is_taken_apart_into_its_words() {
    assert_eq!(
        words("HttpHandler").collect::<Vec<_>>(),
        ["http", "handler"]
    );
    assert_eq!(words("build_info").collect::<Vec<_>>(), ["build", "info"]);
    assert_eq!(words("metadata").collect::<Vec<_>>(), ["metadata"]);
}
