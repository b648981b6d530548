//! The process: allocator settings, signals, caught panics, memory and CPU time used.

pub mod allocations;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// Makes the CPU Burn's default device, unless the user has chosen another with `BURN_DEVICE`. Burn loads checkpoints
/// onto its default device first and would open a GPU for that.
#[allow(unsafe_code)]
pub fn set_default_device() {
    if std::env::var_os("BURN_DEVICE").is_none() {
        // SAFETY: called before any thread exists.
        unsafe { std::env::set_var("BURN_DEVICE", "flex") };
    }
}

/// Memory in bytes that this process may use, where the system reports it: that of the machine, or less in a container
/// with a limit.
pub fn machine_memory() -> Option<u64> {
    let limits = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let limits = limits.map(|path| std::fs::read_to_string(path).ok()?.trim().parse().ok());
    let all = limits.into_iter().chain([physical_memory()]);
    all.flatten().min()
}

#[allow(unsafe_code)]
fn physical_memory() -> Option<u64> {
    #[cfg(unix)]
    {
        // SAFETY: sysconf has no preconditions.
        let (pages, size) = unsafe {
            (
                libc::sysconf(libc::_SC_PHYS_PAGES),
                libc::sysconf(libc::_SC_PAGESIZE),
            )
        };
        u64::try_from(pages)
            .ok()?
            .checked_mul(u64::try_from(size).ok()?)
    }
    #[cfg(not(unix))]
    None
}

/// A panic that was caught: Burn and GPU libraries report in this way that a device is missing, out of memory or
/// lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Panic {
    /// The panic's message.
    pub message: String,
}

thread_local! {
    /// How many calls of [`catch`] are running on this thread.
    static CATCHING: Cell<usize> = const { Cell::new(0) };
}

/// Installs the panic hook of [`catch`], once. It asks a counter of the panicking thread, so calls may overlap and nest.
pub fn install_panic_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |panic| {
            if CATCHING.get() > 0 {
                tracing::debug!("{panic}");
            } else {
                previous(panic);
            }
        }));
    });
}

/// Runs something that may panic and returns the panic as an error. Its message and location are logged (`-v`) instead
/// of printed; panics of other threads are printed as usual.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    install_panic_hook();
    CATCHING.set(CATCHING.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(CATCHING.get() - 1);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
        let message = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Panic {
            message: message.unwrap_or_else(|| "a panic without a message".into()),
        }
    })
}

/// Tells glibc's allocator to keep freed pages: a training step frees and allocates hundreds of megabytes, and page
/// faults would take a quarter of its time. Does nothing with other C libraries.
#[allow(unsafe_code)]
pub fn keep_freed_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt only sets options of the allocator and may be called at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
    }
}

/// Lets a closed pipe end the program silently, as is usual for Unix tools, instead of by a panic in `println!`.
#[allow(unsafe_code)]
pub fn end_on_closed_pipe() {
    #[cfg(unix)]
    // SAFETY: sets a signal back to its default before any thread exists.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Makes a closed pipe or connection an error of the write again, for a service whose clients come and go.
#[allow(unsafe_code)]
pub fn survive_closed_pipes() {
    #[cfg(unix)]
    // SAFETY: ignoring a signal is always possible.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

/// Lets an error of standard output, such as a full disk, end the program with a message instead of by a panic in `println!`.
pub fn report_failed_output() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>();
        match message.and_then(|message| message.strip_prefix("failed printing to stdout: ")) {
            Some(problem) => {
                eprintln!("error: cannot write to standard output: {problem}");
                std::process::exit(1)
            }
            None => usual(panic),
        }
    }));
}

/// The terminal's settings at the start of the program.
#[cfg(unix)]
static TERMINAL: std::sync::OnceLock<libc::termios> = std::sync::OnceLock::new();

/// Remembers the terminal's settings, for [`exit_now`] to restore.
#[allow(unsafe_code)]
pub fn remember_terminal() {
    #[cfg(unix)]
    if let Some(settings) = terminal_settings() {
        let _ = TERMINAL.set(settings);
    }
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn terminal_settings() -> Option<libc::termios> {
    let mut settings = std::mem::MaybeUninit::<libc::termios>::uninit();
    // SAFETY: tcgetattr fills the structure when it returns 0.
    unsafe { (libc::tcgetattr(0, settings.as_mut_ptr()) == 0).then(|| settings.assume_init()) }
}

/// Makes Ctrl-C a signal again: a terminal display in raw mode reads it as a key.
#[allow(unsafe_code)]
pub fn enable_terminal_signals() {
    #[cfg(unix)]
    if let Some(mut settings) = terminal_settings()
        && settings.c_lflag & libc::ISIG == 0
    {
        settings.c_lflag |= libc::ISIG;
        // SAFETY: the settings come from tcgetattr.
        unsafe { libc::tcsetattr(0, libc::TCSANOW, &settings) };
    }
}

/// Ends the program at once and restores the terminal.
#[allow(unsafe_code)]
pub fn exit_now(code: i32) -> ! {
    #[cfg(unix)]
    if let Some(settings) = TERMINAL.get() {
        // SAFETY: the settings come from tcgetattr.
        unsafe { libc::tcsetattr(0, libc::TCSANOW, settings) };
        // Back from the alternate screen, cursor on, mouse reports off.
        print!("\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l");
    }
    std::process::exit(code)
}

/// Resident memory of the process in bytes now, where the system reports it.
pub fn resident_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes << 10)
}

/// Peak resident memory of the process in bytes, where the system reports it.
pub fn peak_memory() -> Option<u64> {
    #[cfg(unix)]
    {
        let bytes = usage()?.ru_maxrss as u64;
        // macOS reports bytes, other systems kilobytes.
        Some(if cfg!(target_os = "macos") {
            bytes
        } else {
            bytes * 1024
        })
    }
    #[cfg(not(unix))]
    None
}

/// CPU time of all threads so far, in seconds, where the system reports it.
pub fn cpu_seconds() -> Option<f64> {
    #[cfg(unix)]
    {
        let usage = usage()?;
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Some(seconds(usage.ru_utime) + seconds(usage.ru_stime))
    }
    #[cfg(not(unix))]
    None
}

/// The name of the processor, where the system reports it.
pub fn cpu_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("model name"));
    let (_, name) = lines.next()?.split_once(':')?;
    Some(name.trim().to_string()).filter(|name| !name.is_empty())
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn usage() -> Option<libc::rusage> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills the structure when it returns 0.
    unsafe {
        (libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) == 0).then(|| usage.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let panic = catch(|| panic!("no {} here", "driver")).unwrap_err();
        assert_eq!(panic.to_string(), "no driver here");
        assert_eq!(catch(|| 3), Ok(3));
    }

    #[test]
    fn overlapping_and_nested_calls_leave_no_stale_hook() {
        let printed = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let seen = printed.clone();
        catch(|| ()).unwrap(); // installs the hook
        let ours = take_hook();
        set_hook(Box::new(move |panic| {
            if panic.to_string().contains("outside") {
                seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            } else {
                ours(panic);
            }
        }));
        let threads: Vec<_> = (0..8)
            .map(|index| {
                std::thread::spawn(move || {
                    for _ in 0..50 {
                        let outer = catch(|| {
                            let inner = catch(|| panic!("inner {index}")).unwrap_err();
                            panic!("outer after {inner}");
                        });
                        let message = outer.unwrap_err().message;
                        assert_eq!(message, format!("outer after inner {index}"));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(CATCHING.get(), 0);
        assert!(std::thread::spawn(|| panic!("outside")).join().is_err());
        assert_eq!(printed.load(std::sync::atomic::Ordering::SeqCst), 1);
    }
}
