//! Tests of processes, of the scheduler and of hosts, on models and simulations, and of adoptions and old logs.

mod adoption;
mod hosts;
mod log_corpus;
mod pci_model;
mod placement_model;
mod processes;
mod scheduling;
mod simulation;
mod time_travel;
