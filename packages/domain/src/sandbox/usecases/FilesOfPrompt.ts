/** The uploaded files of a request: found and checked before it is decided, and used by its sandbox once it is accepted. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SandboxId } from "../../ids/SandboxId.ts"
import { FilesUnsupported, refusalOfFiles } from "../../models/rules/Images.ts"
import type { Model } from "../../models/schema/ModelCatalogue.ts"
import type { StoreUnavailable } from "../../store/StoreUnavailable.ts"
import { PromptFileNotFound, type PromptFiles, type TooManyFiles } from "../ports/PromptFiles.ts"
import { attached, type AttachedFile, type FileRefs } from "../schema/PromptFile.ts"

/** The errors of files in a request. */
export type FilesRefused = FilesUnsupported | PromptFileNotFound | StoreUnavailable | TooManyFiles

interface Dependencies {
  /** None: there are no files here. */
  readonly files: Option.Option<PromptFiles["Service"]>
}

/** The files in the order of the request, if the model can take them. */
export const find = Effect.fnUntraced(function*(
  { files }: Dependencies,
  grantId: string,
  model: Pick<Model, "id" | "images" | "profile">,
  refs: FileRefs = []
) {
  const [first] = refs
  if (first === undefined) return []
  if (Option.isNone(files)) return yield* new PromptFileNotFound({ id: first.id })
  const now = yield* DateTime.now
  const found = yield* Effect.forEach(refs, ({ id }) => Effect.map(files.value.find({ grantId, id }, now), attached))
  return refusalOfFiles(model, found) ?? found
}, Effect.flatMap((found) => found instanceof FilesUnsupported ? Effect.fail(found) : Effect.succeed(found)))

/**
 * Records that the sandbox uses these files, then decides the request. Files that it used in vain are given back: the request failed, or
 * an equal one was executed before.
 */
export const using = <A, E, R>(
  { files }: Dependencies,
  sandbox: { readonly grantId: string; readonly id: SandboxId },
  wanted: ReadonlyArray<Pick<AttachedFile, "id">>,
  request: Effect.Effect<A, E, R>,
  isInVain: (result: A) => boolean
): Effect.Effect<A, E | Exclude<FilesRefused, FilesUnsupported>, R> => {
  if (wanted.length === 0 || Option.isNone(files)) return request
  const release = (added: ReadonlyArray<string>) => added.length === 0 ? Effect.void : files.value.release(sandbox.id, added)
  return Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const { added } = yield* files.value.use(sandbox, wanted.map(({ id }) => id), yield* DateTime.now)
      // An hour later the store gives them back by itself.
      const giveBack = Effect.ignore(release(added))
      const result = yield* Effect.onError(restore(request), () => giveBack)
      if (isInVain(result)) yield* giveBack
      return result
    })
  )
}

/** The files that a fork takes over with the conversation of its origin. */
export const inherited = ({ files }: Dependencies, origin: SandboxId | null) =>
  origin === null || Option.isNone(files) ? Effect.succeed([]) : files.value.ofSandbox(origin)
