//! What this machine has: each family's devices, looked for without trusting that a driver is installed.

use burn::tensor::{DType, Device};

use crate::process::catch;

/// Devices reached in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// The processor, by Burn's flex backend and our kernels.
    Cpu,
    /// The processor, by the plain reference backend.
    Ndarray,
    /// GPUs through Vulkan.
    Vulkan,
    /// GPUs through whatever WebGPU finds.
    Wgpu,
    /// NVIDIA GPUs.
    Cuda,
}

/// A device that is there.
#[derive(Debug, Clone)]
pub struct Present {
    /// What to write after `--device`.
    pub name: String,
    /// What runs it.
    pub backend: &'static str,
    /// What it calls itself.
    pub title: String,
    /// Its memory in bytes, where something tells.
    pub memory: Option<u64>,
    /// The kinds of numbers it calculates with.
    pub precisions: Vec<&'static str>,
    /// A GPU played by the processor.
    pub is_software: bool,
    /// The device.
    pub device: Device,
}

impl Family {
    /// Every family, whether built in or not.
    pub const ALL: [Family; 5] = [
        Self::Cpu,
        Self::Ndarray,
        Self::Vulkan,
        Self::Wgpu,
        Self::Cuda,
    ];

    /// Its name in `--device`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Ndarray => "ndarray",
            Self::Vulkan => "vulkan",
            Self::Wgpu => "wgpu",
            Self::Cuda => "cuda",
        }
    }

    /// True when this program can use it.
    pub fn is_built(&self) -> bool {
        match self {
            Self::Cpu | Self::Ndarray => true,
            Self::Vulkan => cfg!(feature = "vulkan"),
            Self::Wgpu => cfg!(feature = "wgpu"),
            Self::Cuda => cfg!(feature = "cuda"),
        }
    }

    /// What has to be installed for it.
    pub(super) fn needs(&self) -> &'static str {
        match self {
            Self::Cpu | Self::Ndarray => "it needs nothing",
            Self::Vulkan | Self::Wgpu => {
                "it needs a graphics driver with Vulkan (for trying things out without a GPU, Debian's \
                 mesa-vulkan-drivers)"
            }
            Self::Cuda => "it needs an NVIDIA GPU and its driver (does `nvidia-smi` list it?)",
        }
    }

    /// The name of one of its devices.
    pub(super) fn numbered(&self, number: usize) -> String {
        match self {
            Self::Cpu | Self::Ndarray => self.name().into(),
            _ => format!("{}:{number}", self.name()),
        }
    }

    /// Its devices, not opened yet; none when there are none, no driver is there, or it is not built in.
    pub fn devices(&self) -> Vec<Device> {
        match self {
            Self::Cpu => vec![Device::flex()],
            Self::Ndarray => vec![reference()],
            #[cfg(feature = "vulkan")]
            Self::Vulkan => enumerated(burn::tensor::DeviceType::Vulkan),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => enumerated(burn::tensor::DeviceType::Wgpu),
            #[cfg(feature = "cuda")]
            Self::Cuda => enumerated(burn::tensor::DeviceType::Cuda),
            #[allow(unreachable_patterns)] // a build with every feature has all of them
            _ => Vec::new(),
        }
    }

    /// Its devices, opened and asked about themselves.
    pub fn present(&self) -> Vec<Present> {
        let numbered = self.devices().into_iter().enumerate();
        numbered
            .filter_map(|(number, device)| catch(|| self.ask(number, device)).ok())
            .collect()
    }

    fn ask(&self, number: usize, device: Device) -> Present {
        let precisions = [
            ("f32", DType::F32),
            ("f16", DType::F16),
            ("bf16", DType::BF16),
            ("f64", DType::F64),
        ];
        let precisions = precisions
            .into_iter()
            .filter(|(_, kind)| device.supports_dtype(*kind))
            .map(|(name, _)| name)
            .collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let processor = || Identity {
            title: format!("this machine's processor, {cores} cores"),
            is_card: false,
            address: None,
        };
        let (backend, identity) = match self {
            Self::Cpu => ("flex", processor()),
            Self::Ndarray => ("ndarray, for comparing", processor()),
            Self::Vulkan => ("Vulkan", identity(&device)),
            Self::Wgpu => ("WebGPU", identity(&device)),
            Self::Cuda => ("CUDA", identity(&device)),
        };
        let is_processor = matches!(self, Self::Cpu | Self::Ndarray);
        let is_software = !is_processor && !identity.is_card && *self != Self::Cuda;
        Present {
            name: self.numbered(number),
            backend,
            memory: match &identity.address {
                Some(address) => card_memory(address),
                None if is_processor || is_software => machine_memory(),
                None => None,
            },
            title: identity.title,
            precisions,
            is_software,
            device,
        }
    }
}

/// Everything that is there, family by family.
pub fn all() -> Vec<Present> {
    Family::ALL.iter().flat_map(Family::present).collect()
}

/// The reference backend. Upstream deprecates it; this is the only place that names it.
#[allow(deprecated)]
fn reference() -> Device {
    Device::ndarray()
}

#[cfg(any(feature = "vulkan", feature = "wgpu", feature = "cuda"))]
fn enumerated(kind: burn::tensor::DeviceType) -> Vec<Device> {
    catch(|| Device::enumerate(kind).into_vec()).unwrap_or_default()
}

/// Who a device is.
struct Identity {
    title: String,
    /// A card, not a program that plays one.
    is_card: bool,
    /// Its address on the bus, which not every system tells.
    address: Option<String>,
}

#[cfg(any(feature = "vulkan", feature = "wgpu", feature = "cuda"))]
fn identity(device: &Device) -> Identity {
    let found = device.identity();
    let card = found.as_ref().and_then(|found| found.physical.as_ref());
    let address = card.and_then(|card| card.pci_address);
    Identity {
        is_card: card.is_some(),
        address: address.map(|address| address.to_string()),
        title: found.map_or_else(|| "unknown".into(), |found| found.name),
    }
}

#[cfg(not(any(feature = "vulkan", feature = "wgpu", feature = "cuda")))]
fn identity(_: &Device) -> Identity {
    unreachable!("a build without GPUs asks none")
}

/// The memory of the card at a bus address: amdgpu writes it to a file, NVIDIA's own tool knows it.
fn card_memory(address: &str) -> Option<u64> {
    let file = format!("/sys/bus/pci/devices/{address}/mem_info_vram_total");
    if let Ok(text) = std::fs::read_to_string(file) {
        return text.trim().parse().ok();
    }
    let asked = std::process::Command::new("nvidia-smi")
        .args(["--query-gpu=memory.total", "--format=csv,noheader,nounits"])
        .arg(format!("--id={address}"))
        .output();
    let megabytes: u64 = String::from_utf8(asked.ok()?.stdout)
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(megabytes << 20)
}

fn machine_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_always_there() {
        let names: Vec<String> = all().into_iter().map(|device| device.name).collect();
        assert_eq!(names[..2], ["cpu", "ndarray"]);
    }
}
