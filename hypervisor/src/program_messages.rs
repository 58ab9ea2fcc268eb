//! Reads the messages of a program while the program exchanges data with this process.
//!
//! The pipe of the program's standard error holds 64 KiB. If this process read the pipe only at the end, a program with
//! more messages would wait for ever, and this process would wait for the program.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::process::{Child, Output};
use std::thread::{self, JoinHandle};

/// The last messages are kept, because they say why the program ended.
const KEPT: usize = 64 * 1024;

/// The last messages of a running program.
#[derive(Debug)]
pub struct ProgramMessages(Option<JoinHandle<VecDeque<u8>>>);

impl ProgramMessages {
    /// Begins to read the program's standard error.
    ///
    /// # Errors
    /// The machine has no thread for it. The program is ended.
    pub fn of(running: &mut Child) -> io::Result<Self> {
        let Some(pipe) = running.stderr.take() else { return Ok(Self(None)) };
        match thread::Builder::new().name("messages".to_owned()).spawn(move || last_of(pipe)) {
            Ok(reader) => Ok(Self(Some(reader))),
            Err(error) => {
                let _ = running.kill();
                let _ = running.wait();
                Err(error)
            }
        }
    }

    /// Waits for the end of the program. The output has the last messages as its standard error.
    ///
    /// # Errors
    /// The program cannot be waited for.
    pub fn end(self, running: Child) -> io::Result<Output> {
        let mut output = running.wait_with_output()?;
        let said = self.0.and_then(|reader| reader.join().ok()).unwrap_or_default();
        output.stderr = said.into();
        Ok(output)
    }
}

/// Reads to the end. A pipe that cannot be read further has ended.
fn last_of(mut pipe: impl Read) -> VecDeque<u8> {
    let mut last = VecDeque::new();
    let mut buffer = [0_u8; 4096];
    loop {
        match pipe.read(&mut buffer) {
            Ok(length @ 1..) => {
                last.extend(buffer.iter().take(length));
                let surplus = last.len().saturating_sub(KEPT);
                last.drain(..surplus);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return last,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    /// The program says more than a pipe holds before it reads its input.
    #[test]
    fn a_program_with_many_messages_takes_its_input() {
        let mut command = Command::new("sh");
        command.args(["-c", "head -c 200000 /dev/zero >&2; wc -c >&2; exit 3"]);
        let mut running = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let messages = ProgramMessages::of(&mut running).unwrap();
        running.stdin.take().unwrap().write_all(&vec![0; 200_000]).unwrap();
        let output = messages.end(running).unwrap();
        assert_eq!(output.status.code(), Some(3));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.trim_matches(['\0', ' ', '\n']), "200000");
        assert_eq!(said.len(), KEPT);
    }
}
