//! What a build without the feature `laboratory` does not have. Its options are known all the same:
//! who uses one is told how to have it. In `left_out/` are the modules that stand in their places.

#[cfg(not(feature = "laboratory"))]
pub mod dataset;

/// What has it.
pub fn message(what: &str) -> String {
    format!("this build has no {what}: `make build-all` makes one that has")
}
