/** Reads the environment file of a repository on this machine, as the service reads it. */
import { keyFiles } from "@slipway/domain/environment/rules/CacheKey"
import * as CachePath from "@slipway/domain/environment/rules/CachePath"
import type { Surroundings } from "@slipway/domain/environment/rules/DevContainer"
import { type Environment, EnvironmentInvalid, MAX_FILE_BYTES, TOO_LARGE } from "@slipway/domain/environment/rules/Environment"
import { type EnvironmentPath, findEnvironment, unread } from "@slipway/domain/environment/rules/FindEnvironment"
import * as LocalFiles from "@slipway/local-source/LocalFiles"
import { Effect } from "effect"
import * as GitProgram from "../../service/machine/GitProgram.ts"
import * as Isolation from "../../settings/Isolation.ts"

/** There is no box here, so its values are shown as names. */
const SURROUNDINGS: Surroundings = {
  workspaceFolder: "${containerWorkspaceFolder}",
  env: new Map(["HOME", "PATH"].map((name) => [name, `$${name}`]))
}

const read = (files: LocalFiles.LocalFiles) =>
  Effect.fnUntraced(function*(file: EnvironmentPath) {
    const content = yield* files.read(file, MAX_FILE_BYTES)
    if (content._tag === "Text") return content.text
    if (content._tag === "Absent") return null
    return yield* new EnvironmentInvalid({ file, key: "", problem: content._tag === "TooLarge" ? TOO_LARGE : "is no plain file" })
  })

/** Refuses caches of files that git would publish. */
const checkCaches = Effect.fnUntraced(function*(file: EnvironmentPath, { cache }: Environment, files: LocalFiles.LocalFiles) {
  const ignored = yield* files.ignored(cache.filter(({ base }) => base === "tree").map(({ path }) => path))
  for (const [i, { base, path }] of cache.entries()) {
    if (base === "home") continue
    const known = files.paths.find((one) => one === path || one.startsWith(`${path}/`))
    const problem = known !== undefined
      ? `holds ${known}, which git does not ignore`
      : ignored?.has(path) === false
      ? "is not ignored by git: add it to .gitignore"
      : null
    if (problem !== null) return yield* new EnvironmentInvalid({ file, key: `cache[${i}]`, problem })
  }
})

/**
 * `folder`: an absolute path. `file` is `null` if the repository has no environment file. `unread` are files for other tools. Fails
 * with the first problem, and for caches of files that git would publish.
 */
export const look = Effect.fnUntraced(function*(folder: string, which: "commit" | "working") {
  yield* GitProgram.version
  const { egressAllow } = yield* Isolation.load
  const files = yield* LocalFiles.open(folder, which)
  const found = yield* findEnvironment(read(files), SURROUNDINGS)
  if (found === null) return { file: null, commit: files.commit, unread: unread(files.paths) }
  const { environment, file } = found
  yield* checkCaches(file, environment, files)
  const present = keyFiles(environment, files.paths)
  return {
    file,
    commit: files.commit,
    setup: environment.setup,
    cache: environment.cache.map(CachePath.show),
    cacheKey: { files: present, missing: (environment.cacheKey ?? []).filter((one) => !present.includes(one)) },
    env: environment.env,
    secrets: environment.secrets,
    egress: environment.egress.map((name) => ({ name, allowed: egressAllow.has(name) })),
    ports: environment.ports,
    timeoutMinutes: environment.timeoutMinutes,
    onFailure: environment.onFailure,
    image: environment.image,
    ignored: environment.ignored
  }
})

export type Found = Extract<Effect.Success<ReturnType<typeof look>>, { readonly setup: unknown }>
