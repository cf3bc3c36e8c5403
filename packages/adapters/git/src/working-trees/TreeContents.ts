/**
 * Submodules and files of Git LFS when a tree is made, and the record of them, in the host's repository:
 *
 *     <repository>/contents.json
 */
import type { EmptySubmodule, FindSubmodule, LfsMissing } from "@slipway/domain/files/ports/WorkingTrees"
import type { Remote } from "@slipway/domain/source/ports/SourceHost"
import { Counter } from "@slipway/domain/text/Text"
import { textIn } from "@slipway/machine/node/IsThere"
import { Effect, Option, Schema } from "effect"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import * as FillPointers from "../lfs/FillPointers.ts"
import * as LfsFiles from "../lfs/LfsFiles.ts"
import * as CheckOutSubmodules from "../submodules/CheckOutSubmodules.ts"
import * as Gitlinks from "../submodules/Gitlinks.ts"
import * as HostRepository from "../tree/HostRepository.ts"
import type { OpenTrees } from "./OpenTrees.ts"

const Contents = Schema.Struct({
  /** Folders of submodules that stayed empty. */
  empty: Schema.Array(Schema.Struct({ path: Schema.String, reason: Schema.String })),
  /** Files of which the tree has only the pointers of LFS. */
  pointers: Counter,
  /** Some of them with the reason; absent: an earlier version made the tree. */
  missing: Schema.optionalKey(Schema.Array(Schema.Struct({ path: Schema.String, reason: Schema.String })))
})
type Contents = typeof Contents.Type
const ContentsFile = Schema.fromJsonString(Contents)

const fileOf = (gitDir: string): string => join(gitDir, "contents.json")

/** The record of a tree; `null`: it was made by an earlier version. */
export const read = ({ gitDir }: Pick<HostRepository.HostRepository, "gitDir">): Effect.Effect<Contents | null> =>
  Effect.map(Effect.promise(() => textIn(fileOf(gitDir), "")), (text) => Option.getOrNull(Schema.decodeOption(ContentsFile)(text)))

const NO_POINTERS: { readonly pointers: number; readonly missing: ReadonlyArray<LfsMissing> } = { pointers: 0, missing: [] }

/** Completes the tree of the commit, which was checked out on a site of its own. */
export const complete = Effect.fn("TreeContents.complete")(
  function*(trees: OpenTrees, making: HostRepository.Making, sha: string, remote: Remote, submodule: FindSubmodule | undefined) {
    const gitDir = HostRepository.madeIn(making)
    const { attributes, hasModules } = yield* Gitlinks.topOf({ gitDir }, sha)
    const empty: ReadonlyArray<EmptySubmodule> = hasModules
      ? yield* CheckOutSubmodules.checkOut(trees, making, sha, remote, submodule)
      : []
    const { missing, pointers } = attributes.includes(LfsFiles.FILTER) ? yield* FillPointers.fill(trees, making, sha, remote) : NO_POINTERS
    const text = yield* Effect.orDie(Schema.encodeEffect(ContentsFile)({ empty, pointers, missing }))
    yield* Effect.promise(() => writeFile(fileOf(gitDir), text))
  }
)
