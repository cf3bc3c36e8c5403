/** Which file of a tree says what its sandboxes need (docs/decisions/17). */
import * as Effect from "effect/Effect"
import { readDevContainer, type Surroundings } from "./DevContainer.ts"
import { type Environment, type EnvironmentInvalid, readEnvironment } from "./Environment.ts"

/** The first that is there counts, alone. */
export const FILES = [".slipway/environment.json", ".devcontainer/devcontainer.json", ".devcontainer.json"] as const
export type EnvironmentPath = (typeof FILES)[number]

/**
 * Files of `paths` that other tools let a person choose among (`.devcontainer/NAME/devcontainer.json`). None of them counts here;
 * the first 20.
 */
export const unread = (paths: ReadonlyArray<string>): ReadonlyArray<string> =>
  paths.filter((path) => /^\.devcontainer\/[^/]+\/devcontainer\.json$/u.test(path)).slice(0, 20)

/**
 * `null`: the tree says nothing, so there is no setup. `read` gives the text of a plain file of the tree, `null` when
 * there is none; it may stop after `MAX_FILE_BYTES` and one more.
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
