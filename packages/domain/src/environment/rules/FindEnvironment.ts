/** Finds the file that describes the sandboxes of a tree (docs/decisions/17). */
import * as Effect from "effect/Effect"
import { readDevContainer, type Surroundings } from "./DevContainer.ts"
import { type Environment, type EnvironmentInvalid, readEnvironment } from "./Environment.ts"

/** The candidates. Only the first existing file is used. */
export const FILES = [".slipway/environment.json", ".devcontainer/devcontainer.json", ".devcontainer.json"] as const
/** A path of `FILES`. */
export type EnvironmentPath = (typeof FILES)[number]

/** Files of `paths` that other tools offer for choice (`.devcontainer/NAME/devcontainer.json`). They are not supported here. At most 20. */
export const unread = (paths: ReadonlyArray<string>): ReadonlyArray<string> =>
  paths.filter((path) => /^\.devcontainer\/[^/]+\/devcontainer\.json$/u.test(path)).slice(0, 20)

/**
 * Finds and reads the file. `null`: the tree has no such file, so there is no setup. `read` returns the text of a plain file of the
 * tree, or `null`. It may stop one byte after `MAX_FILE_BYTES`.
 */
export const findEnvironment = Effect.fnUntraced(function*<E, R>(
  read: (path: EnvironmentPath) => Effect.Effect<string | null, E, R>,
  surroundings: Surroundings
): Effect.fn.Return<{ readonly file: EnvironmentPath; readonly environment: Environment } | null, E | EnvironmentInvalid, R> {
  for (const file of FILES) {
    const content = yield* read(file)
    if (content === null) continue
    const environment = file === FILES[0] ? readEnvironment(file, content) : readDevContainer(file, content, surroundings)
    return { file, environment: yield* Effect.fromResult(environment) }
  }
  return null
})
