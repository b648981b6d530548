//! Detecting the devices of this machine, without relying on any driver being installed.

use burn::tensor::{DType, Device};
use strum::VariantArray;

use crate::process::{catch, machine_memory};

/// A kind of device: a backend and the hardware it uses. Its name for `--device` is the variant's name in lower case.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString, strum::VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum DeviceKind {
    /// The CPU, with Burn's flex backend and the kernels of this crate.
    Cpu,
    /// The CPU, with Burn's ndarray backend as reference.
    Ndarray,
    /// GPUs through Vulkan.
    Vulkan,
    /// GPUs through WebGPU.
    Wgpu,
    /// NVIDIA GPUs through CUDA.
    Cuda,
}

/// A device of this machine and its properties.
#[derive(Debug, Clone)]
pub struct DeviceInfo {
    /// Its name for `--device`.
    pub name: String,
    /// Name of the backend.
    pub backend: &'static str,
    /// Name of the hardware, as reported by its driver.
    pub title: String,
    /// Memory in bytes, if known.
    pub memory: Option<u64>,
    /// Floating-point types it supports.
    pub precisions: Vec<&'static str>,
    /// True for a GPU that is emulated on the CPU.
    pub is_software: bool,
    /// The device.
    pub device: Device,
}

impl DeviceKind {
    /// True when this build supports it.
    pub fn is_built(&self) -> bool {
        match self {
            Self::Cpu => true,
            Self::Ndarray => cfg!(feature = "ndarray"),
            Self::Vulkan => cfg!(feature = "vulkan"),
            Self::Wgpu => cfg!(feature = "wgpu"),
            Self::Cuda => cfg!(feature = "cuda"),
        }
    }

    /// The hardware and drivers it requires, for messages.
    pub(super) fn requirements(&self) -> &'static str {
        match self {
            Self::Cpu | Self::Ndarray => "it needs nothing",
            Self::Vulkan | Self::Wgpu => {
                "it needs a graphics driver with Vulkan (without a GPU, Debian's mesa-vulkan-drivers emulates one)"
            }
            Self::Cuda => "it needs an NVIDIA GPU and its driver (does `nvidia-smi` list it?)",
        }
    }

    /// The name of one of its devices for `--device`.
    pub(super) fn device_name(&self, index: usize) -> String {
        match self {
            Self::Cpu | Self::Ndarray => self.to_string(),
            _ => format!("{self}:{index}"),
        }
    }

    /// Its devices, not initialised yet. Empty when the machine has none, a driver is missing, or the build does not
    /// support them.
    pub fn devices(&self) -> Vec<Device> {
        match self {
            Self::Cpu => vec![Device::flex()],
            #[cfg(feature = "ndarray")]
            Self::Ndarray => vec![reference()],
            #[cfg(feature = "vulkan")]
            Self::Vulkan => enumerate(burn::tensor::DeviceType::Vulkan),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => enumerate(burn::tensor::DeviceType::Wgpu),
            #[cfg(feature = "cuda")]
            Self::Cuda => enumerate(burn::tensor::DeviceType::Cuda),
            #[allow(unreachable_patterns)] // in a build with all features
            _ => Vec::new(),
        }
    }

    /// Initialises its devices and returns those that work.
    pub fn detect(&self) -> Vec<DeviceInfo> {
        let devices = self.devices().into_iter().enumerate();
        devices
            .filter_map(|(index, device)| catch(|| self.describe(index, device)).ok())
            .collect()
    }

    /// Memory in bytes of one of its devices, if known.
    pub(super) fn memory(&self, index: usize) -> Option<u64> {
        if matches!(self, Self::Cpu | Self::Ndarray) {
            return machine_memory();
        }
        let device = self.devices().into_iter().nth(index)?;
        catch(|| self.describe(index, device)).ok()?.memory
    }

    fn describe(&self, index: usize, device: Device) -> DeviceInfo {
        let precisions = [
            ("f32", DType::F32),
            ("f16", DType::F16),
            ("bf16", DType::BF16),
            ("f64", DType::F64),
        ];
        let precisions = precisions
            .into_iter()
            .filter(|(_, dtype)| device.supports_dtype(*dtype))
            .map(|(name, _)| name)
            .collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let cpu = || Identity {
            title: format!("CPU of this machine, {cores} cores"),
            is_physical: false,
            pci_address: None,
        };
        let (backend, identity) = match self {
            Self::Cpu => ("flex", cpu()),
            Self::Ndarray => ("ndarray (reference)", cpu()),
            Self::Vulkan => ("Vulkan", identity(&device)),
            Self::Wgpu => ("WebGPU", identity(&device)),
            Self::Cuda => ("CUDA", identity(&device)),
        };
        let is_cpu = matches!(self, Self::Cpu | Self::Ndarray);
        let is_software = !is_cpu && !identity.is_physical && *self != Self::Cuda;
        DeviceInfo {
            name: self.device_name(index),
            backend,
            memory: match &identity.pci_address {
                Some(address) => gpu_memory(address),
                None if is_cpu || is_software => machine_memory(),
                None => None,
            },
            title: identity.title,
            precisions,
            is_software,
            device,
        }
    }
}

/// All devices of this machine that this build supports and that work.
pub fn detect_all() -> Vec<DeviceInfo> {
    DeviceKind::VARIANTS
        .iter()
        .flat_map(DeviceKind::detect)
        .collect()
}

/// The device of the reference backend, which Burn deprecates; nothing else in this crate names it.
#[cfg(feature = "ndarray")]
#[allow(deprecated)]
fn reference() -> Device {
    Device::ndarray()
}

/// Devices of a type; empty when the driver is missing, for which Burn panics.
#[cfg(any(feature = "vulkan", feature = "wgpu", feature = "cuda"))]
fn enumerate(kind: burn::tensor::DeviceType) -> Vec<Device> {
    catch(|| Device::enumerate(kind).into_vec()).unwrap_or_default()
}

/// The hardware of a device.
struct Identity {
    title: String,
    /// False for a GPU that is emulated by software.
    is_physical: bool,
    /// Its PCI address, where the system reports one.
    pci_address: Option<String>,
}

#[cfg(any(feature = "vulkan", feature = "wgpu", feature = "cuda"))]
fn identity(device: &Device) -> Identity {
    let found = device.identity();
    let physical = found.as_ref().and_then(|found| found.physical.as_ref());
    let address = physical.and_then(|physical| physical.pci_address);
    Identity {
        is_physical: physical.is_some(),
        pci_address: address.map(|address| address.to_string()),
        title: found.map_or_else(|| "unknown".into(), |found| found.name),
    }
}

#[cfg(not(any(feature = "vulkan", feature = "wgpu", feature = "cuda")))]
fn identity(_: &Device) -> Identity {
    unreachable!("a build without GPU support has no GPU devices")
}

/// Memory in bytes of the GPU at a PCI address, from amdgpu's file in `/sys` or from `nvidia-smi`.
fn gpu_memory(address: &str) -> Option<u64> {
    let file = format!("/sys/bus/pci/devices/{address}/mem_info_vram_total");
    if let Ok(text) = std::fs::read_to_string(file) {
        return text.trim().parse().ok();
    }
    let output = std::process::Command::new("nvidia-smi")
        .args(["--query-gpu=memory.total", "--format=csv,noheader,nounits"])
        .arg(format!("--id={address}"))
        .output();
    let megabytes: u64 = String::from_utf8(output.ok()?.stdout)
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(megabytes << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_is_always_detected() {
        let names: Vec<String> = detect_all().into_iter().map(|device| device.name).collect();
        assert_eq!(names[0], "cpu");
        assert_eq!(
            names.contains(&"ndarray".to_string()),
            cfg!(feature = "ndarray")
        );
    }
}
