/** The environments of a sandbox's repositories, read from the commits that their trees started from. */
import { EnvironmentInvalid, type Environment, MAX_FILE_BYTES, TOO_LARGE } from "@slipway/domain/environment/rules/Environment"
import { type EnvironmentPath, FILES, findEnvironment } from "@slipway/domain/environment/rules/FindEnvironment"
import { WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import type { RepoRef } from "@slipway/domain/source/schema/RepoRef"
import { Effect } from "effect"

/** The environment file of one repository. */
export interface RepositoryEnvironment {
  readonly repo: string
  /** Its folder in the box. */
  readonly folder: string
  readonly file: string
  readonly environment: Environment | EnvironmentInvalid
}

const readOne = Effect.fnUntraced(function*(box: Box, repo: string, folder: string) {
  const trees = yield* WorkingTrees
  const files = yield* trees.readBase({ sandboxId: box.sandboxId, repo }, FILES, { maximumBytes: MAX_FILE_BYTES }).pipe(
    Effect.catchTag("FileNotFound", () => Effect.succeed(new Map<string, never>()))
  )
  const read = (file: EnvironmentPath) => {
    const found = files.get(file)
    if (found === undefined) return Effect.succeed(null)
    return found.content === null
      ? new EnvironmentInvalid({ file, key: "", problem: TOO_LARGE })
      : Effect.succeed(new TextDecoder().decode(found.content))
  }
  const found = yield* findEnvironment(read, { workspaceFolder: folder, env: new Map([["HOME", box.home]]) }).pipe(
    Effect.catchTag("EnvironmentInvalid", (environment) => Effect.succeed({ file: environment.file, environment }))
  )
  return found === null ? [] : [{ repo, folder, ...found }]
})

/** In the order of the repositories. Repositories without an environment file are left out. */
export const read = Effect.fn("Environments.read")(function*(box: Box, repos: ReadonlyArray<RepoRef>) {
  const trees = yield* WorkingTrees
  const names = repos.map(({ fullName }) => fullName)
  const found: ReadonlyArray<ReadonlyArray<RepositoryEnvironment>> = yield* Effect.forEach(
    names,
    (repo) => readOne(box, repo, `${box.workspace}/${trees.folder(repo, names)}`),
    { concurrency: "unbounded" }
  )
  return found.flat()
})

type Variables = Readonly<Record<string, string>>

/**
 * The plain variables for the agent: `own` are those of the sandbox, which win over those of repositories. For one name, the first
 * repository wins.
 */
export const variablesOf = (environments: ReadonlyArray<RepositoryEnvironment>, own: Variables): Variables =>
  Object.assign(
    {},
    ...environments.map(({ environment }) => environment instanceof EnvironmentInvalid ? {} : environment.env).reverse(),
    own
  )

/** Whether a repository names secrets for its setup. */
export const nameSecrets = (environments: ReadonlyArray<RepositoryEnvironment>): boolean =>
  environments.some(({ environment }) => !(environment instanceof EnvironmentInvalid) && environment.secrets.length > 0)

/**
 * The environments for setup, with the variables of the sandbox. They change nothing if a repository names secrets: variables such as
 * `npm_config_node_options` decide what programs do, and the creator of a sandbox may not see the secrets.
 */
export const withVariables = (
  environments: ReadonlyArray<RepositoryEnvironment>,
  own: Variables
): ReadonlyArray<RepositoryEnvironment> =>
  nameSecrets(environments) ? environments : environments.map((one) =>
    one.environment instanceof EnvironmentInvalid
      ? one
      : { ...one, environment: { ...one.environment, env: { ...one.environment.env, ...own } } }
  )
