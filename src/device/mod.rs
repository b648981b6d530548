//! Device names: `auto`, `cpu`, `ndarray`, with the Cargo feature of the same name `vulkan[:n]`, `wgpu[:n]` and `cuda[:n]`,
//! and devices of other machines as `remote:HOST:PORT[/n]`.

mod detect;
pub mod remote;
pub mod self_test;

use burn::tensor::Device;
use strum::VariantArray;

pub use detect::{DeviceInfo, DeviceKind, detect_all};

use crate::error::{Error, Result};

/// The CPU, with the kernels of this crate. All tensors on it are in host memory.
pub fn cpu() -> Device {
    Device::flex()
}

/// The device with this name.
pub fn parse(name: &str) -> Result<Device> {
    find(name, None)
}

/// The devices of a comma-separated list of names. A name may occur more than once.
pub fn find_all(names: &str, token: Option<&str>) -> Result<Vec<Device>> {
    names
        .split(',')
        .map(|name| find(name.trim(), token))
        .collect()
}

/// The device with this name. `token` authorises the client to workers on other machines.
pub fn find(name: &str, token: Option<&str>) -> Result<Device> {
    if name == "auto" {
        return Ok(best());
    }
    if let Some(address) = name.strip_prefix("remote:") {
        return remote::connect(address, token);
    }
    let (kind_name, index) = match name.split_once(':') {
        Some((kind_name, index)) => {
            let index: usize = index.parse().map_err(|_| {
                Error::Device(format!(
                    "device {name:?}: {index:?} is not a number; write for example {kind_name}:0"
                ))
            })?;
            (kind_name, index)
        }
        None => (name, 0),
    };
    let Ok(kind) = kind_name.parse::<DeviceKind>() else {
        return Err(Error::Device(format!(
            "there is no device {name:?}; this machine and build have: {}",
            available()
        )));
    };
    if !kind.is_built() {
        return Err(Error::Device(format!(
            "device {name:?}: this program was built without it; build with `--features {kind}`, or use one of: {}",
            available()
        )));
    }
    let devices = kind.devices();
    let count = devices.len();
    devices.into_iter().nth(index).ok_or_else(|| {
        let problem = match count {
            0 => format!("no such device was found; {}", kind.requirements()),
            1 => format!("there is only one, {}", kind.device_name(0)),
            _ => format!("there are {count}, from {kind}:0 to {kind}:{}", count - 1),
        };
        Error::Device(format!(
            "device {name:?}: {problem}. Use one of: {}",
            available()
        ))
    })
}

/// The device for `auto`: the first GPU, CUDA before Vulkan before WebGPU, else the CPU. Skips software-emulated GPUs.
/// Logs its choice if the build supports GPUs.
fn best() -> Device {
    let gpus = [DeviceKind::Cuda, DeviceKind::Vulkan, DeviceKind::Wgpu];
    let built: Vec<DeviceKind> = gpus.into_iter().filter(DeviceKind::is_built).collect();
    if built.is_empty() {
        return cpu();
    }
    let found = built.into_iter().find_map(|kind| {
        let all = kind.detect();
        all.into_iter().find(|device| !device.is_software)
    });
    match found {
        Some(found) => {
            tracing::info!("device auto: {}, {}", found.name, found.title);
            found.device
        }
        None => {
            tracing::info!("device auto: cpu, because this build found no GPU it can use");
            cpu()
        }
    }
}

/// The name of a device for `--device`; `remote` for one of another machine.
pub fn name_of(device: &Device) -> String {
    let kinds = DeviceKind::VARIANTS.iter().filter(|kind| kind.is_built());
    let mut names = kinds.filter_map(|kind| {
        let index = kind.devices().iter().position(|other| other == device)?;
        Some(kind.device_name(index))
    });
    names.next().unwrap_or_else(|| "remote".into())
}

/// Whether a device compiles kernels for the shapes of tensors: every one but those of [`cpu_devices`].
pub fn compiles_kernels(device: &Device) -> bool {
    let device = device.clone().inner();
    !cpu_devices().contains(&device)
}

/// Memory of a device in bytes, if known.
pub fn memory(device: &Device) -> Option<u64> {
    let kinds = DeviceKind::VARIANTS.iter().filter(|kind| kind.is_built());
    let mut found = kinds.filter_map(|kind| {
        let index = kind.devices().iter().position(|other| other == device)?;
        kind.memory(index)
    });
    found.next()
}

/// Names of all devices that this build and machine have.
fn available() -> String {
    let mut names = Vec::new();
    for kind in DeviceKind::VARIANTS.iter().filter(|kind| kind.is_built()) {
        let count = kind.devices().len();
        names.extend((0..count).map(|index| kind.device_name(index)));
    }
    names.join(", ")
}

/// The CPU devices of this build: `cpu`, and with the feature the reference backend `ndarray`. Tests run on all of them.
pub fn cpu_devices() -> Vec<Device> {
    let kinds = [DeviceKind::Cpu, DeviceKind::Ndarray];
    kinds.iter().flat_map(DeviceKind::devices).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_or_explained() {
        assert!(parse("cpu").is_ok());
        assert_eq!(parse("ndarray").is_ok(), cfg!(feature = "ndarray"));
        assert_eq!(find_all("cpu, cpu", None).unwrap().len(), 2);
        let problem = parse("gpu").unwrap_err().to_string();
        assert!(problem.contains("have: cpu"), "{problem}");
        let problem = parse("cuda:x").unwrap_err().to_string();
        assert!(problem.contains("not a number"), "{problem}");
        let problem = parse("cpu:1").unwrap_err().to_string();
        assert!(problem.contains("only one"), "{problem}");
        if !DeviceKind::Cuda.is_built() {
            let problem = parse("cuda").unwrap_err().to_string();
            assert!(problem.contains("--features cuda"), "{problem}");
        }
    }
}
