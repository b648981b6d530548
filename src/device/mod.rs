//! Names to devices: `auto`, `cpu`, `ndarray`, with the matching feature `vulkan[:n]`, `wgpu[:n]`, `cuda[:n]`, and other
//! machines' devices as `remote:HOST:PORT[/n]`.

mod present;
pub mod remote;
pub mod self_test;

use burn::tensor::Device;

pub use present::{Family, Present, all};

use crate::error::{Error, Result};

/// The device with this name.
pub fn parse(name: &str) -> Result<Device> {
    find(name, None)
}

/// The devices in a list of names with commas between them; a name may come more than once.
pub fn find_all(names: &str, token: Option<&str>) -> Result<Vec<Device>> {
    names
        .split(',')
        .map(|name| find(name.trim(), token))
        .collect()
}

/// The device with this name; `token` opens the workers of other machines.
pub fn find(name: &str, token: Option<&str>) -> Result<Device> {
    if name == "auto" {
        return Ok(best());
    }
    if let Some(address) = name.strip_prefix("remote:") {
        return remote::connect(address, token);
    }
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
    let Some(family) = Family::ALL.into_iter().find(|family| family.name() == kind) else {
        return Err(Error::Device(format!(
            "there is no device {name:?}; this machine and build have: {}",
            listed()
        )));
    };
    if !family.is_built() {
        return Err(Error::Device(format!(
            "device {name:?}: this program was built without it; build with `--features {kind}`, or use one of: {}",
            listed()
        )));
    }
    let devices = family.devices();
    let count = devices.len();
    devices.into_iter().nth(number.unwrap_or(0)).ok_or_else(|| {
        let problem = match count {
            0 => format!("nothing of the kind was found here; {}", family.needs()),
            1 => format!("there is only one, {}", family.numbered(0)),
            _ => format!("there are {count}, from {kind}:0 on"),
        };
        Error::Device(format!(
            "device {name:?}: {problem}. Use one of: {}",
            listed()
        ))
    })
}

/// What `auto` stands for: the first GPU of the fastest family that is there, else the processor. Programs that only
/// pretend to be a GPU do not count. Says what it took when there was a choice.
fn best() -> Device {
    let gpus = [Family::Cuda, Family::Vulkan, Family::Wgpu];
    let built: Vec<Family> = gpus.into_iter().filter(|kind| kind.is_built()).collect();
    if built.is_empty() {
        return Device::flex();
    }
    let found = built.into_iter().find_map(|family| {
        let all = family.present();
        all.into_iter().find(|device| !device.is_software)
    });
    match found {
        Some(found) => {
            tracing::info!("device auto: {}, {}", found.name, found.title);
            found.device
        }
        None => {
            tracing::info!("device auto: cpu, as there is no GPU this build can use");
            Device::flex()
        }
    }
}

/// Names of everything that is there.
fn listed() -> String {
    let mut names = Vec::new();
    for family in Family::ALL.into_iter().filter(Family::is_built) {
        let count = family.devices().len();
        names.extend((0..count).map(|number| family.numbered(number)));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_or_explained() {
        assert!(parse("cpu").is_ok());
        assert!(parse("ndarray").is_ok());
        assert_eq!(find_all("cpu, cpu", None).unwrap().len(), 2);
        let problem = parse("gpu").unwrap_err().to_string();
        assert!(problem.contains("cpu, ndarray"), "{problem}");
        let problem = parse("cuda:x").unwrap_err().to_string();
        assert!(problem.contains("not a number"), "{problem}");
        let problem = parse("cpu:1").unwrap_err().to_string();
        assert!(problem.contains("only one"), "{problem}");
        if !Family::Cuda.is_built() {
            let problem = parse("cuda").unwrap_err().to_string();
            assert!(problem.contains("--features cuda"), "{problem}");
        }
    }
}
