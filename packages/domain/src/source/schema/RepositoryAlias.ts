/** A name of the operator for a repository of one of several source hosts. */
import * as Schema from "effect/Schema"
import { RepoName } from "./RepoRef.ts"

/** The name of a source host in the operator's list, such as `gitlab.example.com` or `local`. */
export const HostName = Schema.String.check(
  Schema.isMaxLength(255),
  Schema.isPattern(/^[A-Za-z0-9](?:[A-Za-z0-9.:_-]*[A-Za-z0-9])?$/u, { expected: "the name of a source host" })
)
export type HostName = typeof HostName.Type

/** GitLab has up to 20 levels of groups, of at most 255 characters each. */
const MAX_PATH = 1_024

const PATH = /^(?!\.)[A-Za-z0-9_.][A-Za-z0-9._-]*(?:\/[A-Za-z0-9_][A-Za-z0-9._-]*)+$/u

/** The path of a repository at its host: two segments or, in nested groups, more. Comparisons ignore case; the spelling is kept. */
export const HostPath = Schema.String.check(
  Schema.makeFilter((path: string) => path.length <= MAX_PATH && PATH.test(path) && !path.toLowerCase().endsWith(".git"), {
    expected: "a path such as group/subgroup/project",
    toJsonSchema: () => [{}, true],
    arbitraryConstraint: { patterns: [{ source: "^[a-z]{1,8}(/[a-z0-9]{1,8}){1,3}$", flags: "" }] }
  })
)
export type HostPath = typeof HostPath.Type

/** `name` is the repository at `path` of `host`. */
export const RepositoryAlias = Schema.Struct({ name: RepoName, host: HostName, path: HostPath })
export type RepositoryAlias = typeof RepositoryAlias.Type
