//! Everything at once against the MCP server on HTTP: strangers, large bodies, and a crowd that holds
//! connections open, while one client goes on with its work. The twin takes whatever comes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use countersign_testkit::mcp::{HttpAnswer, HttpClient};
use serde_json::json;

use super::{Deadline, Ending, Order};
use crate::product;
use xtask::place::{succeed, target};

/// Slow connections where no number is given.
const SLOW: [usize; 2] = [100, 1_000];
/// Calls of the healthy client while they hold.
const CALLS: usize = 400;
/// Bytes of a body that no server has to take.
const LARGE: usize = 100 << 20;
/// What 99 of 100 of them may take at most.
const P99_MAX: Duration = Duration::from_millis(100);

pub(super) fn run(order: &Order) -> Result<Ending, String> {
    let deadline = order.deadline();
    let server = Server::start()?;
    refusals(&server.door, deadline)?;
    large_bodies(&server.door, deadline)?;
    let [short, long] = SLOW;
    if !deadline.is_over() {
        crowd(&server.door, order.count(short, long), deadline)?;
    }
    twin(deadline)?;
    Ok(Ending::Passed)
}

/// Where a server listens, and the token that it wants.
struct Door {
    address: SocketAddr,
    token: String,
}

impl Door {
    fn client(&self) -> HttpClient {
        HttpClient::new(self.address, &self.token)
    }
}

struct Server {
    child: Child,
    dir: std::path::PathBuf,
    door: Door,
}

impl Server {
    fn start() -> Result<Self, String> {
        let dir = target().join("fire-tmp").join(format!("http-{}", std::process::id()));
        let told = |error: std::io::Error| error.to_string();
        fs::create_dir_all(&dir).map_err(told)?;
        let command = |arguments: &[&str]| {
            let mut command = Command::new(product::binary());
            command.args(arguments).current_dir(&dir).env("COUNTERSIGN_CONFIG", dir.join("config"));
            command
        };
        succeed(command(&["init"]).stdout(Stdio::null()).stderr(Stdio::null()))?;
        let mut server = command(&["mcp", "--http", "127.0.0.1:0"]);
        let mut child = server.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(told)?;
        let mut line = String::new();
        let talk = child.stderr.take().ok_or("no standard error")?;
        BufReader::new(talk).read_line(&mut line).map_err(told)?;
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.and_then(|text| text.strip_suffix("/mcp")?.parse().ok());
        let address = address.ok_or_else(|| format!("the server says: {line}"))?;
        let token = fs::read_to_string(dir.join("config/mcp-token")).map_err(told)?;
        let door = Door { address, token: token.trim_end().to_owned() };
        Ok(Self { child, dir, door })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
        let _ = fs::remove_dir(target().join("fire-tmp"));
    }
}

/// A wrong name, a foreign page, no token and a wrong one, in all combinations.
fn refusals(server: &Door, deadline: Deadline<'_>) -> Result<(), String> {
    let hosts = [
        (server.address.to_string(), true),
        (format!("localhost:{}", server.address.port()), true),
        ("evil.example".to_owned(), false),
        ("127.0.0.1".to_owned(), false),
        (format!("127.0.0.1.evil.example:{}", server.address.port()), false),
        (format!("localhost.:{}", server.address.port()), false),
    ];
    let origins = [
        (None, true),
        (Some(format!("http://{}", server.address)), true),
        (Some("null".to_owned()), false),
        (Some("https://evil.example".to_owned()), false),
        (Some(format!("https://{}", server.address)), false),
    ];
    let wrong = server.token.chars().rev().collect::<String>();
    let tokens = [
        (Some(server.token.clone()), true),
        (None, false),
        (Some(wrong), false),
        (Some(String::new()), false),
        (server.token.get(1..).map(str::to_owned), false),
    ];
    let mut tried = 0;
    for (host, host_is_good) in &hosts {
        for (origin, origin_is_good) in &origins {
            for (token, token_is_good) in &tokens {
                if deadline.is_over() {
                    return Ok(());
                }
                let mut head = format!("host: {host}\r\ncontent-length: 2\r\n");
                if let Some(origin) = origin {
                    head.push_str(&format!("origin: {origin}\r\n"));
                }
                if let Some(token) = token {
                    head.push_str(&format!("authorization: Bearer {token}\r\n"));
                }
                let expected = match (host_is_good, origin_is_good, token_is_good) {
                    (false, _, _) => Some(421),
                    (true, false, _) => Some(403),
                    (true, true, false) => Some(401),
                    (true, true, true) => None,
                };
                let status = server.client().raw(&head, b"{}").status;
                let right = match expected {
                    Some(expected) => status == expected,
                    None => ![421, 403, 401, 0].contains(&status),
                };
                if !right {
                    return Err(format!("{head:?} was answered with {status}, not {expected:?}"));
                }
                tried += 1;
            }
        }
    }
    println!("{:<20}{tried:>8} tried", "host, origin, token");
    Ok(())
}

fn large_bodies(server: &Door, deadline: Deadline<'_>) -> Result<(), String> {
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n",
        server.address, server.token
    );
    for length in [format!("content-length: {LARGE}\r\n"), "transfer-encoding: chunked\r\n".into()]
    {
        if deadline.is_over() {
            break;
        }
        let chunked = length.starts_with("transfer");
        let mut stream = TcpStream::connect(server.address).map_err(|error| error.to_string())?;
        let _ = stream.write_all(format!("{head}{length}\r\n").as_bytes());
        let piece = vec![b' '; 1 << 20];
        let mut taken = 0;
        while taken < LARGE {
            let written = match chunked {
                true => stream
                    .write_all(format!("{:x}\r\n", piece.len()).as_bytes())
                    .and_then(|()| stream.write_all(&piece))
                    .and_then(|()| stream.write_all(b"\r\n")),
                false => stream.write_all(&piece),
            };
            if written.is_err() {
                break;
            }
            taken += piece.len();
        }
        if taken >= LARGE {
            return Err(format!("all of a body of {LARGE} bytes was taken"));
        }
        // The answer is lost where the system throws it away with the rest of the connection.
        let status = HttpAnswer::read(stream).status;
        if status != 413 && status != 0 {
            return Err(format!("a large body was answered with {status}"));
        }
        println!("{:<20}{:>8} MiB taken of {}", "large body", taken >> 20, LARGE >> 20);
    }
    Ok(())
}

/// Connections that say nothing, or a byte now and then, and a client that works.
fn crowd(server: &Door, count: usize, deadline: Deadline<'_>) -> Result<(), String> {
    raise_descriptors(count)?;
    let mut client = server.client();
    client.initialize();
    let quiet = calls(&mut client, deadline);
    let stop = AtomicBool::new(false);
    let (held, busy) = std::thread::scope(|scope| {
        let crowd = scope.spawn(|| hold(server.address, count, &stop));
        std::thread::sleep(Duration::from_millis(500));
        let busy = calls(&mut client, deadline);
        stop.store(true, Ordering::Relaxed);
        (crowd.join(), busy)
    });
    let opened = held.map_err(|_| "the crowd panicked".to_owned())?;
    for (name, times) in [("alone", &quiet), ("in the crowd", &busy)] {
        let (middle, p99) = (percentile(times, 50), percentile(times, 99));
        println!(
            "{name:<20}{:>8} calls, half in {:.1} ms, 99 of 100 in {:.1} ms",
            times.len(),
            middle.as_secs_f64() * 1e3,
            p99.as_secs_f64() * 1e3
        );
    }
    println!("{:<20}{opened:>8} opened", "slow connections");
    let p99 = percentile(&busy, 99);
    if p99 > P99_MAX {
        return Err(format!("99 of 100 calls took {p99:?}, more than {P99_MAX:?}"));
    }
    Ok(())
}

/// Keeps so many connections open, opening each anew that the server closes; says how many it opened.
fn hold(address: SocketAddr, count: usize, stop: &AtomicBool) -> usize {
    let open = |number: usize| {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
        stream.set_nonblocking(true).ok()?;
        if number.is_multiple_of(2) {
            let _ = (&stream).write_all(b"POST /mcp HTTP/1.1\r\nhost: 127");
        }
        Some(stream)
    };
    let mut opened = 0;
    let mut crowd: Vec<Option<TcpStream>> = (0..count).map(open).collect();
    opened += crowd.iter().flatten().count();
    while !stop.load(Ordering::Relaxed) {
        for (number, slot) in crowd.iter_mut().enumerate() {
            let gone = slot.as_mut().is_none_or(|stream| stream.write_all(b"x").is_err());
            if gone {
                *slot = open(number);
                opened += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    opened
}

fn calls(client: &mut HttpClient, deadline: Deadline<'_>) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..CALLS)
        .take_while(|_| !deadline.is_over())
        .map(|number| {
            let asked = json!({
                "action_type": "code_edit", "description": format!("change {number}"),
                "files_affected": [format!("src/{number}.txt")], "tool_name": "edit",
                "success": true,
            });
            let tool = if number % 2 == 0 { "capseal_gate" } else { "capseal_record" };
            let begun = Instant::now();
            client.call(tool, &asked);
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times
}

/// A server that looks at nothing: it takes every body to its end, and answers whoever asks. Both
/// looks at refusals must see that.
fn twin(deadline: Deadline<'_>) -> Result<(), String> {
    let told = |error: std::io::Error| format!("cannot start the twin: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(told)?;
    let address = listener.local_addr().map_err(told)?;
    let stop = AtomicBool::new(false);
    let door = Door { address, token: "token".to_owned() };
    let (refused, bounded) = std::thread::scope(|scope| {
        scope.spawn(|| {
            for stream in listener.incoming().map_while(Result::ok) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                take_all(stream);
            }
        });
        let looks = (refusals(&door, deadline), large_bodies(&door, deadline));
        stop.store(true, Ordering::Relaxed);
        // Somebody has to knock, or it waits for ever.
        drop(TcpStream::connect(address));
        looks
    });
    // What there was no time for is no look.
    if deadline.is_over() {
        return Ok(());
    }
    match (refused, bounded) {
        (Err(_), Err(_)) => {
            println!("{:<20}         caught", "twin that takes all");
            Ok(())
        }
        (Ok(()), _) => Err("a server that lets strangers in was not caught".to_owned()),
        (_, Ok(())) => Err("a server that takes large bodies was not caught".to_owned()),
    }
}

/// Takes what comes until nothing does, and answers.
fn take_all(mut stream: TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let mut piece = vec![0; 1 << 16];
    while stream.read(&mut piece).is_ok_and(|taken| taken > 0) {}
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

fn raise_descriptors(count: usize) -> Result<(), String> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = count as u64 + 200;
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        setrlimit(Resource::Nofile, limit)
            .map_err(|error| format!("cannot have {wanted} descriptors: {error}"))?;
    }
    Ok(())
}
