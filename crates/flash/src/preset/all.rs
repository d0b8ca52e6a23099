//! The presets that there are.

use super::Preset;
use super::emmc::EMMC;
use super::nvme::NVME;
use super::sd::SD;
use super::ufs::UFS;

impl Preset {
    pub const ALL: [&'static Preset; 4] = [&EMMC, &UFS, &SD, &NVME];

    pub fn named(name: &str) -> Option<&'static Preset> {
        Preset::ALL.into_iter().find(|preset| preset.name == name)
    }
}
