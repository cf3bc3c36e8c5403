/** Repositories in folders of the service's machine. Pages list and change them where this service is given. */
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Context, Data, type Effect } from "effect"

/** Sandboxes cannot start from this folder. `text` says why, and what to do. */
export class UnusableFolder extends Data.TaggedError("UnusableFolder")<{ readonly text: string }> {}

export interface MachineRepository {
  readonly fullName: RepoName
  readonly path: string
}

export class MachineRepositories extends Context.Service<MachineRepositories, {
  readonly list: Effect.Effect<ReadonlyArray<MachineRepository>, StoreUnavailable>
  /** Lets sandboxes start from the repository in this folder, an absolute path. */
  add(fullName: RepoName, path: string): Effect.Effect<void, UnusableFolder | StoreUnavailable>
  /** Makes a small repository to try Slipway with, and adds it. Safe to repeat. */
  readonly addSample: Effect.Effect<void, StoreUnavailable>
  /** Takes the repository off the list; its folder stays as it is. `false`: unknown name. */
  remove(fullName: RepoName): Effect.Effect<boolean, StoreUnavailable>
  /**
   * The entries of a folder at `ref` (`null`: the default branch), without protected ones. An unknown repository, ref or folder has none.
   */
  names(fullName: RepoName, ref: string | null, folder: string): Effect.Effect<
    ReadonlyArray<{ readonly name: string; readonly isFolder: boolean }>,
    StoreUnavailable
  >
}>()("@slipway/pages/MachineRepositories") {}
