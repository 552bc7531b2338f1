//! The fence for object stores, over memory, moto (S3) and Azurite (Azure Blob Storage).

mod contract;
mod lies;
mod network;
mod recipes;
mod rounds;
mod stores;
