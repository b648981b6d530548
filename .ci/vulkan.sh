# To be sourced: sets up Mesa's software Vulkan driver for machines without a GPU; installs it if it is missing.
icd=/usr/share/vulkan/icd.d/lvp_icd.x86_64.json
if [ ! -e "$icd" ]; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends mesa-vulkan-drivers libvulkan1
fi
XDG_RUNTIME_DIR=$(mktemp -d)
export XDG_RUNTIME_DIR VK_DRIVER_FILES=$icd VK_ICD_FILENAMES=$icd
export MESA_SHADER_CACHE_DIR=$PWD/target/shaders
mkdir -p "$MESA_SHADER_CACHE_DIR"
