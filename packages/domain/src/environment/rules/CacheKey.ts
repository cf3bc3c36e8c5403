/** What names a cache (docs/decisions/17): sandboxes with the same key would fill the same folders with the same. */
import { digest } from "../../ids/Digest.ts"
import * as CachePath from "./CachePath.ts"
import type { Environment } from "./Environment.ts"

/** Names of files that fix what a setup installs, or that say it where nothing fixes it. */
export const LOCK_FILES: ReadonlySet<string> = new Set([
  "package-lock.json",
  "npm-shrinkwrap.json",
  "pnpm-lock.yaml",
  "yarn.lock",
  "uv.lock",
  "requirements.txt",
  "poetry.lock",
  "Cargo.lock",
  "go.sum",
  "Gemfile.lock",
  "composer.lock",
  "pom.xml",
  "gradle.lockfile",
  "build.gradle",
  "build.gradle.kts",
  "libs.versions.toml",
  "gradle-wrapper.properties"
])

/** Those of the tree's files whose content counts, in the order of their paths. `files`: every path of the commit. */
export const keyFiles = ({ cacheKey }: Pick<Environment, "cacheKey">, files: Iterable<string>): ReadonlyArray<string> => {
  const named = cacheKey === null ? null : new Set(cacheKey)
  const counts = (path: string) => named === null ? LOCK_FILES.has(path.slice(path.lastIndexOf("/") + 1)) : named.has(path)
  return Array.from(new Set(Array.from(files).filter(counts))).sort()
}

/**
 * Another form of keys is another cache. Caches of form 1 may have been filled by a setup of a commit that nobody trusts, so none of them
 * is used; those of form 2 were filled by trusted setups alone (`SetupTrust`).
 */
const FORM = 2

/**
 * 64 hex digits. `image` names what the box has of programs and where it has tree and home, `folder` is the repository's below the
 * workspace, since paths are written into what a setup installs; `files` are the ids of git's blobs by path. The order of none of
 * them but the commands matters, nor under which keys the commands were written.
 */
export const cacheKeyOf = ({ cache, env, files, folder, image, setup }: Pick<Environment, "setup" | "cache" | "env"> & {
  readonly image: string
  readonly folder: string
  readonly files: ReadonlyMap<string, string>
}): string =>
  digest(JSON.stringify([
    FORM,
    setup.map((step) => step.map(({ argv }) => argv)),
    Object.keys(env).sort().map((name) => [name, env[name]]),
    cache.map(CachePath.show).sort(),
    image,
    folder,
    Array.from(files.keys()).sort().map((path) => [path, files.get(path)])
  ]))
