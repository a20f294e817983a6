//! Decides what a line is: what stands between line breaks, without blank ones, and no more of it than is asked for.

use std::io::{self, BufRead};

/// Lines of any input, in bounded memory.
pub(super) struct Lines<R> {
    from: R,
    number: u64,
    consumed: u64,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its number in the input, from 1, blank lines counted.
    pub(super) number: u64,
    /// Its bytes, without the line break; cut off where there are more than asked for.
    pub(super) content: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            number: 0,
            consumed: 0,
        }
    }

    /// The next line that is not blank, cut off after `most` bytes.
    pub(super) fn next(&mut self, most: usize) -> io::Result<Option<Line>> {
        loop {
            let Some(content) = self.read(most)? else {
                return Ok(None);
            };
            if !content.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(Line {
                    number: self.number,
                    content,
                }));
            }
        }
    }

    /// Bytes of the input that have been read.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    fn read(&mut self, most: usize) -> io::Result<Option<Vec<u8>>> {
        let mut content = Vec::new();
        let mut begun = false;
        loop {
            let buffer = match self.from.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                break;
            }
            if !std::mem::replace(&mut begun, true) {
                self.number += 1;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = buffer
                .get(..end.unwrap_or(buffer.len()))
                .unwrap_or_default();
            let room = most.saturating_sub(content.len());
            content.extend(part.iter().take(room));
            let used = part.len() + usize::from(end.is_some());
            self.from.consume(used);
            self.consumed += u64::try_from(used).unwrap_or(u64::MAX);
            if end.is_some() {
                break;
            }
        }
        if content.last() == Some(&b'\r') {
            content.pop();
        }
        Ok(begun.then_some(content))
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    fn all(input: &[u8], buffer: usize, most: usize) -> Vec<(u64, String)> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, input));
        let mut found = Vec::new();
        while let Some(line) = lines.next(most).unwrap() {
            found.push((line.number, String::from_utf8(line.content).unwrap()));
        }
        assert_eq!(lines.consumed(), input.len() as u64);
        found
    }

    #[test]
    fn blank_lines_are_passed_over_and_counted() {
        let want = [(1, "a".to_owned()), (4, "b".to_owned())];
        assert_eq!(all(b"a\r\n\n  \nb", 3, 10), want);
    }

    #[test]
    fn a_line_is_cut_off_where_it_is_longer_than_asked_for() {
        let want = [(1, "abc".to_owned()), (2, "d".to_owned())];
        assert_eq!(all(b"abcdefgh\nd\n", 4, 3), want);
    }

    proptest! {
        /// Oracle: the standard library's lines of a text that is in memory.
        #[test]
        fn lines_are_those_of_the_text(text in "[ab\n ]{0,60}", buffer in 1usize..9) {
            let want: Vec<(u64, String)> = text
                .lines()
                .zip(1u64..)
                .filter(|(line, _)| !line.trim().is_empty())
                .map(|(line, number)| (number, line.to_owned()))
                .collect();
            prop_assert_eq!(all(text.as_bytes(), buffer, 1000), want);
        }
    }
}
