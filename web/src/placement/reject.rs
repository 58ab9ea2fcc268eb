//! Refusals in Placement's words: one place maps each rejection of the ledger to status, code and message.

use std::fmt::Display;

use chronova_actors::aggregate::CommandError;
use chronova_actors::ledger::{LedgerReject, Reserve};
use chronova_events::ids::ProviderId;

use crate::fault::Fault;

const CONCURRENT: &str = "placement.concurrent_update";
const DUPLICATE: &str = "placement.duplicate_name";
const INVENTORY_IN_USE: &str = "placement.inventory.inuse";
const PROVIDER_IN_USE: &str = "placement.resource_provider.inuse";
const HAS_CHILDREN: &str = "placement.resource_provider.cannot_delete_parent";
const PROVIDER_NOT_FOUND: &str = "placement.resource_provider.not_found";

/// The requested operation. The same rejection has different messages in different operations.
#[derive(Debug, Clone, Copy)]
pub(super) enum PlacementOperation<'a> {
    CreateProvider {
        name: &'a str,
        provider: ProviderId,
    },
    UpdateProvider(ProviderId),
    DeleteProvider(ProviderId),
    CreateInventory(ProviderId),
    SetInventories(ProviderId),
    UpdateInventory(ProviderId),
    DeleteInventory(&'a str),
    /// A change of allocations. Has the consumer if the path names one.
    Allocate(Option<&'a str>),
    Reshape,
    RenameClass,
    DeleteTrait,
    /// Any other operation.
    Other,
}

pub(super) fn no_provider(id: impl Display) -> Fault {
    Fault::not_found(format!("No resource provider with uuid {id} found"))
}

/// The refusal of a reshape with an unknown provider.
pub(super) fn no_provider_to_reshape(id: impl Display) -> Fault {
    Fault::bad_request(format!(
        "Resource provider {id} in inventories not found: No resource provider with uuid {id} found"
    ))
    .key(PROVIDER_NOT_FOUND)
}

pub(super) fn nobody_allocates_from(id: impl Display) -> Fault {
    Fault::bad_request(format!("Allocation for resource provider '{id}' that does not exist."))
}

pub(super) fn ledger(error: CommandError<LedgerReject>, during: PlacementOperation<'_>) -> Fault {
    match error {
        CommandError::Rejected(reject) => of(reject, during),
        CommandError::Unavailable(cause) => Fault::of_log(&cause),
    }
}

fn of(reject: LedgerReject, during: PlacementOperation<'_>) -> Fault {
    match reject {
        LedgerReject::NoSuchProvider(id) => match during {
            PlacementOperation::Allocate(_) | PlacementOperation::Reshape => nobody_allocates_from(id),
            PlacementOperation::DeleteProvider(_) => {
                Fault::not_found(format!("No resource provider with uuid {id} found for delete"))
            }
            _ => no_provider(id),
        },
        LedgerReject::NameTaken(name) => {
            let which = if matches!(during, PlacementOperation::CreateProvider { .. }) { "name: " } else { "" };
            Fault::conflict(format!("Conflicting resource provider {which}{name} already exists.")).key(DUPLICATE)
        }
        LedgerReject::ProviderExists(id) => {
            Fault::conflict(format!("Conflicting resource provider uuid: {id} already exists.")).key(DUPLICATE)
        }
        LedgerReject::OwnParent => tree(
            during,
            "parent provider UUID cannot be same as UUID. Please set parent provider UUID to None if there is no parent.",
        ),
        LedgerReject::NoSuchParent(_) => tree(during, "parent provider UUID does not exist."),
        LedgerReject::Reparenting => tree(during, "re-parenting a provider is not currently allowed."),
        LedgerReject::Unparenting => tree(during, "un-parenting a provider is not currently allowed."),
        LedgerReject::Loop => tree(during, "creating loop in the provider tree is not allowed."),
        LedgerReject::HasChildren => {
            let id = subject(during);
            Fault::conflict(format!("Unable to delete parent resource provider {id}: It has child resource providers."))
                .key(HAS_CHILDREN)
        }
        LedgerReject::ProviderInUse => {
            let id = subject(during);
            Fault::conflict(format!("Unable to delete resource provider {id}: Resource provider has allocations."))
                .key(PROVIDER_IN_USE)
        }
        LedgerReject::ProviderChanged { provider, actual, seen } => changed(provider, actual, seen, during),
        LedgerReject::NoSuchTraits(names) => match during {
            PlacementOperation::DeleteTrait => Fault::not_found(format!("No such trait(s): {names}.")),
            _ => Fault::bad_request(format!("No such trait {names}")),
        },
        LedgerReject::StandardTrait(name) => Fault::bad_request(format!("Cannot delete standard trait {name}.")),
        LedgerReject::TraitInUse(name) => {
            Fault::conflict(format!("The trait {name} is in use by a resource provider."))
        }
        LedgerReject::ClassExists(name) => match during {
            PlacementOperation::RenameClass => Fault::conflict(format!("Resource class already exists: {name}")),
            _ => Fault::conflict(format!("Conflicting resource class already exists: {name}")),
        },
        LedgerReject::StandardClass(name) => {
            Fault::bad_request(format!("Error in delete resource class: Cannot delete standard resource class {name}."))
        }
        LedgerReject::ClassInUse(name) => Fault::conflict(format!(
            "Error in delete resource class: Cannot delete resource class {name}. Class is in use in inventory."
        )),
        other => inventory_or_allocation(other, during),
    }
}

fn inventory_or_allocation(reject: LedgerReject, during: PlacementOperation<'_>) -> Fault {
    match reject {
        LedgerReject::NoSuchClass(name) => no_class(&name, during),
        LedgerReject::InventoryInUse { provider, classes } => {
            let reason = format!("Inventory for '{classes}' on resource provider '{provider}' in use.");
            match during {
                PlacementOperation::DeleteInventory(class) => {
                    Fault::conflict(format!("Unable to delete inventory of class {class}: {reason}")).key(CONCURRENT)
                }
                PlacementOperation::Other => Fault::conflict(reason).key(INVENTORY_IN_USE),
                _ => Fault::conflict(format!("update conflict: {reason}")).key(INVENTORY_IN_USE),
            }
        }
        LedgerReject::InventoryExists { provider, class } => {
            Fault::conflict(format!("Update conflict: provider {provider} already has an inventory of {class}"))
                .key(CONCURRENT)
        }
        LedgerReject::NoInventory { class } => match during {
            PlacementOperation::UpdateInventory(id) => Fault::bad_request(format!(
                "No inventory record with resource class for resource provider {id}: No inventory of class {class} found."
            )),
            _ => Fault::not_found(format!("No inventory of class {class} found for delete")),
        },
        LedgerReject::ReservedTooMuch { provider, class, reserve } => {
            let verb = if matches!(during, PlacementOperation::CreateInventory(_)) { "create" } else { "update" };
            let limit = match reserve {
                Reserve::All => "greater than",
                Reserve::Less => "greater than or equal to",
            };
            Fault::bad_request(format!(
                "Unable to {verb} inventory for resource provider {provider}: Invalid inventory for '{class}' on resource \
                 provider '{provider}'. The reserved value is {limit} total."
            ))
        }
        LedgerReject::ConsumerChanged { actual, seen } => {
            let text =
                |generation: Option<u64>| generation.map_or_else(|| "None".to_owned(), |number| number.to_string());
            let expected = actual.map_or_else(|| "null".to_owned(), |number| number.to_string());
            Fault::conflict(format!("consumer generation conflict - expected {expected} but got {}", text(seen)))
                .key(CONCURRENT)
        }
        LedgerReject::NothingToAllocate { provider, class } => {
            no_room(&format!("Inventory for '{class}' on resource provider '{provider}' invalid."))
        }
        LedgerReject::UnitsViolated { provider, class } => no_room(&format!(
            "Unable to create allocation for '{class}' on resource provider '{provider}'. The requested amount would \
             violate inventory constraints."
        )),
        LedgerReject::CapacityExceeded { provider, class } | LedgerReject::DoesNotFit { provider, class, .. } => {
            no_room(&format!(
                "Unable to create allocation for '{class}' on resource provider '{provider}'. The requested amount would \
                 exceed the capacity."
            ))
        }
        // Clients of Placement never see this refusal, because only the scheduler claims for server groups.
        LedgerReject::GroupPolicyBroken { group, .. } => {
            Fault::conflict(format!("The policy of server group {group} does not admit the allocation"))
        }
        LedgerReject::HoldsNothing(consumer) => Fault::not_found(format!("No allocations for consumer '{consumer}'")),
        LedgerReject::HoldsOther(consumer) => {
            Fault::conflict(format!("Consumer {consumer} has other allocations")).key(CONCURRENT)
        }
        // The calling function has already matched the rejections that are missing here.
        other => Fault::conflict(other.to_string()),
    }
}

fn no_class(name: &str, during: PlacementOperation<'_>) -> Fault {
    let reason = format!("No such resource class {name}.");
    match during {
        PlacementOperation::CreateInventory(id) => {
            Fault::bad_request(format!("Unable to create inventory for resource provider {id}: {reason}"))
        }
        PlacementOperation::SetInventories(id) | PlacementOperation::UpdateInventory(id) => {
            Fault::bad_request(format!("Unknown resource class in inventory for resource provider {id}: {reason}"))
        }
        PlacementOperation::DeleteInventory(class) => {
            Fault::not_found(format!("No inventory of class {class} found for delete: {reason}"))
        }
        PlacementOperation::Allocate(Some(consumer)) => {
            Fault::bad_request(format!("Unable to allocate inventory for consumer {consumer}: {reason}"))
        }
        PlacementOperation::Allocate(None) => Fault::bad_request(format!("Unable to allocate inventory {reason}")),
        PlacementOperation::Reshape => Fault::bad_request(format!("malformed reshaper data: {reason}")),
        _ => Fault::not_found(reason),
    }
}

fn changed(provider: ProviderId, actual: u64, seen: u64, during: PlacementOperation<'_>) -> Fault {
    let message = match during {
        PlacementOperation::SetInventories(_) | PlacementOperation::UpdateInventory(_) => {
            "resource provider generation conflict".to_owned()
        }
        PlacementOperation::Reshape => {
            format!("resource provider generation conflict for provider {provider}: actual: {actual}, given: {seen}")
        }
        _ => "Resource provider's generation already changed. Please update the generation and try again.".to_owned(),
    };
    Fault::conflict(message).key(CONCURRENT)
}

fn no_room(reason: &str) -> Fault {
    Fault::conflict(format!("Unable to allocate inventory: {reason}"))
}

fn tree(during: PlacementOperation<'_>, reason: &str) -> Fault {
    Fault::bad_request(match during {
        PlacementOperation::CreateProvider { name, provider } => format!(
            "Unable to create resource provider \"{name}\", {provider}: Object action create failed because: {reason}"
        ),
        _ => format!(
            "Unable to save resource provider {}: Object action update failed because: {reason}",
            subject(during)
        ),
    })
}

fn subject(during: PlacementOperation<'_>) -> String {
    match during {
        PlacementOperation::CreateProvider { provider: id, .. }
        | PlacementOperation::UpdateProvider(id)
        | PlacementOperation::DeleteProvider(id)
        | PlacementOperation::CreateInventory(id)
        | PlacementOperation::SetInventories(id)
        | PlacementOperation::UpdateInventory(id) => id.to_string(),
        PlacementOperation::DeleteInventory(_)
        | PlacementOperation::Allocate(_)
        | PlacementOperation::Reshape
        | PlacementOperation::RenameClass
        | PlacementOperation::DeleteTrait
        | PlacementOperation::Other => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traits_and_classes_are_refused_in_the_words_of_their_operation() {
        let name = || "CUSTOM_X".to_owned();
        for (reject, during, status, words) in [
            (LedgerReject::NoSuchTraits(name()), PlacementOperation::DeleteTrait, 404, "No such trait(s): CUSTOM_X."),
            (LedgerReject::NoSuchTraits(name()), PlacementOperation::Other, 400, "No such trait CUSTOM_X"),
            (
                LedgerReject::NoSuchClass(name()),
                PlacementOperation::RenameClass,
                404,
                "No such resource class CUSTOM_X.",
            ),
            (
                LedgerReject::ClassExists(name()),
                PlacementOperation::RenameClass,
                409,
                "Resource class already exists: CUSTOM_X",
            ),
            (
                LedgerReject::ClassExists(name()),
                PlacementOperation::Other,
                409,
                "Conflicting resource class already exists: CUSTOM_X",
            ),
        ] {
            let fault = of(reject, during);
            assert_eq!((fault.status, fault.message.as_str()), (status, words), "{during:?}");
        }
    }
}
