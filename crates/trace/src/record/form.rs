//! Forms of what is printed.

/// How an event's fields are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Queue,
    /// Inserted, or sent to the device.
    Request,
    Complete,
    /// The end at a device that hands its requests on.
    BioComplete,
    /// From one device to another.
    Remap,
    /// `dev 7,0 ino 12 …`
    Ext4,
    /// `dev = (7,0), ino = 12, …`
    F2fs,
    Jbd2,
    /// `dev=0x7:0x0 ino=0xc fl_type=F_WRLCK …`
    Lock,
    Marker,
    /// `field=value …`
    Fields,
}
