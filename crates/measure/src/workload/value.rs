//! Values of rows.

pub(super) const VALUE_BYTES: usize = 100;

/// A text that no two rows share and that does not compress. Strategies that write differences must
/// not profit from constant rows.
pub(crate) fn random_value(random: &mut fastrand::Rng) -> String {
    std::iter::repeat_with(|| random.alphanumeric()).take(VALUE_BYTES).collect()
}
