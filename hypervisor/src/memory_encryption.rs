//! The encryption of guests' memory by the host's processor: AMD's SEV.

/// The offer of a host whose guests can have encrypted memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SevFacts {
    /// The position of the bit that marks an encrypted page in the guest's page tables (C-bit).
    pub cbitpos: u32,
    /// How many bits guests lose of their physical addresses.
    pub reduced_phys_bits: u32,
    /// How many guests with encrypted memory the processor can have at a time; `None`: the host's libvirt (before
    /// 8.0.0) does not report the number.
    pub max_guests: Option<u32>,
}

impl SevFacts {
    /// The trait of a host whose guests can have encrypted memory. The scheduler requires this trait in addition to the
    /// resource class.
    pub(crate) const TRAIT: &str = "HW_CPU_X86_AMD_SEV";

    /// Placement's largest inventory.
    const UNLIMITED: u32 = 0x7fff_ffff;

    /// How many guests with encrypted memory the host can have. This is the smaller one of two numbers: the processor's
    /// and the operator's (`[libvirt] num_memory_encrypted_guests`). If neither is known, there is no limit, as in
    /// Nova.
    pub fn slots(&self, operators: Option<u32>) -> u32 {
        operators.into_iter().chain(self.max_guests).min().unwrap_or(Self::UNLIMITED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_offers_as_many_encrypted_guests_as_processor_and_operator_allow() {
        let of = |max_guests, operators| SevFacts { cbitpos: 47, reduced_phys_bits: 1, max_guests }.slots(operators);
        assert_eq!(of(Some(509), None), 509, "the processor's number");
        assert_eq!(of(Some(509), Some(15)), 15, "the operator's number");
        assert_eq!(of(Some(15), Some(509)), 15, "no operator gives the processor more keys");
        assert_eq!(of(None, Some(15)), 15);
        assert_eq!(of(None, Some(0)), 0, "the operator offers none");
        assert_eq!(of(None, None), 2_147_483_647, "Nova's number without a limit");
    }
}
