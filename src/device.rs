//! Names to devices: `auto`, `cpu`, `ndarray`, and with the matching feature `vulkan[:n]`, `wgpu[:n]`, `cuda[:n]`.

use burn::tensor::Device;

use crate::error::{Error, Result};

/// A device this build can name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What to write after `--device`.
    pub name: String,
    /// What it is.
    pub about: &'static str,
}

/// The kinds of device in this build.
pub fn kinds() -> Vec<Choice> {
    let kind = |name: &str, about| Choice {
        name: name.to_string(),
        about,
    };
    let mut kinds = vec![
        kind("cpu", "this machine's processor (Burn flex), the default"),
        kind(
            "ndarray",
            "the processor again, by the plain reference backend: slow, for comparing results",
        ),
    ];
    if cfg!(feature = "vulkan") {
        kinds.push(kind("vulkan[:n]", "a GPU through Vulkan"));
    }
    if cfg!(feature = "wgpu") {
        kinds.push(kind("wgpu[:n]", "a GPU through WebGPU shaders"));
    }
    if cfg!(feature = "cuda") {
        kinds.push(kind("cuda[:n]", "an NVIDIA GPU"));
    }
    kinds
}

/// The device with this name. `auto` is the GPU this build was made for, or the processor.
pub fn parse(name: &str) -> Result<Device> {
    let (kind, number) = match name.split_once(':') {
        Some((kind, number)) => {
            let number: usize = number.parse().map_err(|_| {
                Error::Device(format!(
                    "device {name:?}: {number:?} is not a number; write for example {kind}:0"
                ))
            })?;
            (kind, Some(number))
        }
        None => (name, None),
    };
    match (kind, number) {
        ("auto", None) => parse(best()),
        ("cpu" | "flex", None) => Ok(Device::flex()),
        ("ndarray", None) => Ok(reference()),
        #[cfg(feature = "vulkan")]
        ("vulkan", number) => Ok(Device::vulkan(gpu(number))),
        #[cfg(feature = "wgpu")]
        ("wgpu", number) => Ok(Device::wgpu(gpu(number))),
        #[cfg(feature = "cuda")]
        ("cuda", number) => Ok(Device::cuda(number.unwrap_or(0))),
        #[allow(unreachable_patterns)] // a build with every feature has nothing to refuse here
        ("vulkan" | "wgpu" | "cuda", _) => Err(Error::Device(format!(
            "device {name:?}: this program was built without it; build with `--features {kind}`, or use one of: {}",
            listed()
        ))),
        _ => Err(Error::Device(format!(
            "there is no device {name:?}; this build has: {}",
            listed()
        ))),
    }
}

/// What `auto` stands for in this build.
pub fn best() -> &'static str {
    if cfg!(feature = "cuda") {
        "cuda"
    } else if cfg!(feature = "vulkan") {
        "vulkan"
    } else if cfg!(feature = "wgpu") {
        "wgpu"
    } else {
        "cpu"
    }
}

fn listed() -> String {
    let names: Vec<String> = kinds().into_iter().map(|kind| kind.name).collect();
    names.join(", ")
}

/// The reference backend. Upstream deprecates it; this is the only place that names it.
#[allow(deprecated)]
fn reference() -> Device {
    Device::ndarray()
}

#[cfg(any(feature = "vulkan", feature = "wgpu"))]
fn gpu(number: Option<usize>) -> burn::tensor::DeviceKind {
    match number {
        Some(number) => burn::tensor::DeviceKind::DiscreteGpu(number),
        None => burn::tensor::DeviceKind::DefaultDevice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_or_explained() {
        assert!(parse("cpu").is_ok());
        assert!(parse("ndarray").is_ok());
        let problem = parse("gpu").unwrap_err().to_string();
        assert!(problem.contains("cpu, ndarray"), "{problem}");
        let problem = parse("cuda:x").unwrap_err().to_string();
        assert!(problem.contains("not a number"), "{problem}");
    }
}
