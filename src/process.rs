//! The process: an allocator that keeps its pages, closed pipes, and what has been used so far.

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

/// The most memory the process has held, in bytes, where the system tells.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Processor time of all threads so far, in seconds, where the system tells.
pub fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command's name may hold spaces; the fields after it do not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / 100.0) // Linux always shows a hundred ticks a second here
}
