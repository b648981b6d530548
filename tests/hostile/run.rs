//! Running the program with limits on time, memory and the size of files.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a process did.
#[derive(Debug)]
pub struct Finished {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Seconds from start to end.
    pub wall: f64,
    /// CPU seconds of all threads.
    pub cpu: f64,
    /// Peak resident memory in megabytes.
    pub megabytes: u64,
    /// Whether it was killed because it took too long.
    pub timed_out: bool,
}

/// Address space that a process may have: a case that allocates without bound must not take the machine down.
const ADDRESS_SPACE: u64 = 12 << 30;

/// The program: `NERZOO_PROGRAM`, by default the one that was built with this test.
pub fn program() -> Command {
    let mut command = match std::env::var_os("NERZOO_PROGRAM") {
        Some(program) => Command::new(program),
        None => Command::new(env!("CARGO_BIN_EXE_nerzoo")),
    };
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("HF_HUB_OFFLINE", "1")
        .env_remove("RUST_BACKTRACE");
    for variable in [
        "NERZOO_DATA",
        "NERZOO_ENCODERS",
        "NERZOO_DEVICE",
        "NERZOO_TOKEN_FILE",
        "RUST_LOG",
    ] {
        command.env_remove(variable);
    }
    command
}

/// Runs a command to its end, at most `seconds`. Its input and outputs are files in `folder`.
#[allow(unsafe_code)]
pub fn run(
    mut command: Command,
    folder: &Path,
    input: &[u8],
    stdout: Option<Stdio>,
    largest_file: Option<u64>,
    seconds: f64,
) -> Finished {
    let (stdin, out, err) = (
        folder.join(".stdin"),
        folder.join(".stdout"),
        folder.join(".stderr"),
    );
    std::fs::write(&stdin, input).unwrap();
    let captured = File::create(&out).unwrap();
    command
        .stdin(File::open(stdin).unwrap())
        .stdout(stdout.unwrap_or_else(|| captured.into()))
        .stderr(File::create(&err).unwrap());
    // SAFETY: only system calls that may follow a fork.
    unsafe {
        command.pre_exec(move || {
            limit(libc::RLIMIT_AS, ADDRESS_SPACE);
            limit(libc::RLIMIT_CORE, 0);
            if let Some(bytes) = largest_file {
                limit(libc::RLIMIT_FSIZE, bytes);
                // A write beyond the limit is an error instead of the end of the program, as on a full disk.
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            }
            Ok(())
        });
    }
    let start = Instant::now();
    let mut child = command.spawn().unwrap();
    drop(command);
    let (status, usage, timed_out) = wait(&mut child, start + Duration::from_secs_f64(seconds));
    let wall = start.elapsed().as_secs_f64();
    let time = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let text = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    Finished {
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        stdout: text(&out),
        stderr: text(&err),
        wall,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        megabytes: usage.ru_maxrss as u64 / 1024,
        timed_out,
    }
}

#[allow(unsafe_code)]
fn limit(resource: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: the structure is valid for the call.
    unsafe { libc::setrlimit(resource, &limit) };
}

/// Waits for the end of a process and returns its status and what it used; kills it at the deadline.
#[allow(unsafe_code)]
fn wait(child: &mut Child, deadline: Instant) -> (i32, libc::rusage, bool) {
    let id = child.id() as libc::pid_t;
    let mut timed_out = false;
    loop {
        let mut status = 0;
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the process is a child that nobody else waits for, and both pointers are valid.
        let ended = unsafe { libc::wait4(id, &mut status, libc::WNOHANG, usage.as_mut_ptr()) };
        assert!(ended >= 0, "wait4 failed");
        if ended == id {
            // SAFETY: zeroed above, and filled by wait4.
            return (status, unsafe { usage.assume_init() }, timed_out);
        }
        if !timed_out && Instant::now() > deadline {
            timed_out = true;
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}
