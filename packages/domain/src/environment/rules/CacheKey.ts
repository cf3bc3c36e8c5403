/** The key of a cache (docs/decisions/17). Sandboxes with the same key fill the same folders with the same content. */
import { digest } from "../../ids/Digest.ts"
import * as CachePath from "./CachePath.ts"
import type { Environment } from "./Environment.ts"

/** Names of files that fix the versions that a setup installs, or list its dependencies where no lock file does. */
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

/** The files of the tree that count for the key, in the order of their paths. `files`: every path of the commit. */
export const keyFiles = ({ cacheKey }: Pick<Environment, "cacheKey">, files: Iterable<string>): ReadonlyArray<string> => {
  const named = cacheKey === null ? null : new Set(cacheKey)
  const counts = (path: string) => named === null ? LOCK_FILES.has(path.slice(path.lastIndexOf("/") + 1)) : named.has(path)
  return Array.from(new Set(Array.from(files).filter(counts))).sort()
}

/**
 * The version of the key format; another version never finds the caches of this one. Caches of version 1 may have been filled by setups
 * of untrusted commits, so they are not used. Version 2 is filled by trusted setups only (`SetupTrust`).
 */
const FORM = 2

/**
 * Returns 64 hex digits. `image` identifies the programs of the box and the places of its tree and home. `folder` is the repository's
 * folder below the workspace, because installed files contain paths. `files` are git blob ids by path. Only the order of commands
 * counts, and the keys that commands were written under do not.
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
