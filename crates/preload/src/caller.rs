//! Functions that know the code that calls them: by the address that they return to.
//!
//! The address goes as one more argument to the function behind `=>`. The number there is that of
//! the arguments before it.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! with_caller {
    (
        $(#[$attribute:meta])*
        fn $name:ident($($argument:ident: $of:ty),*) => $count:tt $to:ident
    ) => {
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($($argument: $of),*) -> c_int {
            crate::caller::jump!($count, $to)
        }
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    (2, $to:ident) => {
        std::arch::naked_asm!("mov rdx, [rsp]", "jmp {}", sym $to)
    };
    (3, $to:ident) => {
        std::arch::naked_asm!("mov rcx, [rsp]", "jmp {}", sym $to)
    };
    (4, $to:ident) => {
        std::arch::naked_asm!("mov r8, [rsp]", "jmp {}", sym $to)
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    (2, $to:ident) => {
        std::arch::naked_asm!("mov x2, x30", "b {}", sym $to)
    };
    (3, $to:ident) => {
        std::arch::naked_asm!("mov x3, x30", "b {}", sym $to)
    };
    (4, $to:ident) => {
        std::arch::naked_asm!("mov x4, x30", "b {}", sym $to)
    };
}

/// Elsewhere nobody is known, and the process' only SQLite is meant.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! with_caller {
    (
        $(#[$attribute:meta])*
        fn $name:ident($($argument:ident: $of:ty),*) => $count:tt $to:ident
    ) => {
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $of),*) -> c_int {
            // SAFETY: as the caller promises.
            unsafe { $to($($argument,)* 0) }
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use jump;
pub(crate) use with_caller;
