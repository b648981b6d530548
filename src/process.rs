//! The process: an allocator that keeps its pages, closed pipes, panics of others, and what has been used so far.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Arc;

/// Burn puts what it reads from a checkpoint on a default device first, for which it would open a GPU. Every device is
/// named here, so the default is the processor, unless the user has chosen one.
#[allow(unsafe_code)]
pub fn leave_gpus_alone() {
    if std::env::var_os("BURN_DEVICE").is_none() {
        // SAFETY: called before any thread exists.
        unsafe { std::env::set_var("BURN_DEVICE", "flex") };
    }
}

/// Runs something that may panic and says why it did: Burn and GPU libraries tell in this way that a device is missing,
/// full or gone. Where it happened is logged (`-v`); other threads' panics are shown as ever.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let hook = Arc::new(take_hook());
    let (before, here) = (hook.clone(), std::thread::current().id());
    set_hook(Box::new(move |panic| {
        if std::thread::current().id() == here {
            tracing::debug!("{panic}")
        } else {
            before(panic)
        }
    }));
    let result = catch_unwind(AssertUnwindSafe(work));
    drop(take_hook());
    if let Ok(hook) = Arc::try_unwrap(hook) {
        set_hook(hook);
    }
    result.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
        text.or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "it gave no reason".into())
    })
}

/// Tells the C library to keep freed pages instead of handing them back: a training step frees and asks again for
/// hundreds of megabytes, and page faults would take a quarter of its time. Elsewhere than on glibc nothing
/// happens.
#[allow(unsafe_code)]
pub fn keep_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt only sets options of the allocator and may be called at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TOP_PAD, 64 << 20);
    }
}

/// A closed pipe ends the program quietly, as it does every Unix tool, instead of by a panic in `println`.
#[allow(unsafe_code)]
pub fn end_with_pipe() {
    #[cfg(unix)]
    // SAFETY: sets a signal back to its default before any thread exists.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// The terminal's settings as they were when the program began.
#[cfg(unix)]
static TERMINAL: std::sync::OnceLock<libc::termios> = std::sync::OnceLock::new();

/// Remembers the terminal's settings, for leaving it as it was.
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

/// A display in raw mode takes Ctrl-C for a key; this makes it a signal again.
#[allow(unsafe_code)]
pub fn let_signals_through() {
    #[cfg(unix)]
    if let Some(mut settings) = terminal_settings()
        && settings.c_lflag & libc::ISIG == 0
    {
        settings.c_lflag |= libc::ISIG;
        // SAFETY: the settings come from tcgetattr.
        unsafe { libc::tcsetattr(0, libc::TCSANOW, &settings) };
    }
}

/// Ends the program at once, leaving the terminal as it was found.
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

/// The most memory the process has held, in bytes, where the system tells.
pub fn peak_memory() -> Option<u64> {
    #[cfg(unix)]
    {
        let bytes = usage()?.ru_maxrss as u64;
        // macOS counts bytes, everyone else kilobytes.
        Some(if cfg!(target_os = "macos") {
            bytes
        } else {
            bytes * 1024
        })
    }
    #[cfg(not(unix))]
    None
}

/// Processor time of all threads so far, in seconds, where the system tells.
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
    fn a_panic_becomes_a_reason() {
        let reason = caught(|| panic!("no {} here", "driver")).unwrap_err();
        assert_eq!(reason, "no driver here");
        assert_eq!(caught(|| 3), Ok(3));
    }
}
