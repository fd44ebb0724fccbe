//! The Lambda Runtime API, as far as one process with one invocation needs it.
//!
//! A thread per connection reads requests and passes them to the owner of the `RuntimeApi`, who decides each answer. A request
//! that is not answered keeps its caller waiting, as `/next` does on Lambda.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server for one process.
#[derive(Debug)]
pub struct RuntimeApi {
    address: SocketAddr,
    calls: Receiver<Call>,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Call {
    /// When it had been read.
    pub at: Instant,
    /// Method and path.
    target: String,
    body: Vec<u8>,
    answer: Sender<String>,
}

impl RuntimeApi {
    /// Starts a server on a free port.
    pub fn start() -> Result<RuntimeApi> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (sender, calls) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                // A connection that breaks means that its process ended, which the waiting side notices.
                thread::spawn(move || serve(stream, &sender).ok());
            }
        });
        Ok(RuntimeApi { address, calls })
    }

    /// What `AWS_LAMBDA_RUNTIME_API` holds.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The next request, which must be to `path`.
    pub fn expect(&self, path: &str) -> Result<Call> {
        let call = self
            .calls
            .recv_timeout(PATIENCE)
            .with_context(|| format!("no request to {path}"))?;
        if !call.target.ends_with(path) {
            bail!(
                "{} instead of {path}: {}",
                call.target,
                String::from_utf8_lossy(&call.body)
            );
        }
        Ok(call)
    }
}

impl Call {
    /// Answers with status 200, these header lines and this body.
    pub fn answer(self, headers: &str, body: &str) -> Result<()> {
        let length = body.len();
        let response = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
        self.answer.send(response).context("the function hung up")
    }
}

fn serve(stream: TcpStream, calls: &Sender<Call>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some((target, body)) = read_request(&mut reader)? {
        let (answer, answered) = channel();
        let at = Instant::now();
        calls.send(Call {
            at,
            target,
            body,
            answer,
        })?;
        writer.write_all(answered.recv()?.as_bytes())?;
    }
    Ok(())
}

fn read_request(reader: &mut impl BufRead) -> Result<Option<(String, Vec<u8>)>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let target = line
        .rsplit_once(' ')
        .context("a request line ends with the version")?
        .0
        .to_owned();
    let (mut length, mut chunked) = (0, false);
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
        chunked |= name.eq_ignore_ascii_case("transfer-encoding");
    }
    let body = if chunked {
        read_chunks(reader)?
    } else {
        read_exactly(reader, length)?
    };
    Ok(Some((target, body)))
}

fn read_exactly(reader: &mut impl BufRead, length: usize) -> Result<Vec<u8>> {
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(body)
}

fn read_chunks(reader: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim(), 16)?;
        body.extend(read_exactly(reader, size)?);
        // The line end after a chunk, and after the last one.
        reader.read_line(&mut String::new())?;
        if size == 0 {
            return Ok(body);
        }
    }
}
