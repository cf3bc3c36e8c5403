/** Tools that read the changes of a sandbox and publish them. */
import type { DiffQuery, FileVersion, PullRequestStatus } from "@slipway/client"
import { characters, Counter } from "@slipway/domain/text/Text"
import { Schema } from "effect"
import { note, page, pageOf, paging, repo, sandboxId } from "./Shapes.ts"
import { changes, reads, tool, UNTRUSTED } from "./Tool.ts"

const Version = Schema.Union([Schema.Literals(["base", "working"]), Counter])

const repoOf = ({ repo }: { readonly repo?: string }) => repo === undefined ? {} : { repo }

export const getDiff = tool({
  name: "get_diff",
  title: "Get the changes",
  description:
    "Shows the changes of a sandbox as a patch: from the commit that it started with to the files as they are now. Long patches " +
    "come in pages. Changes nothing and costs nothing.",
  ...reads,
  input: Schema.Struct({
    sandboxId,
    repo,
    path: Schema.optionalKey(characters(1, 1000)).annotateKey({ description: "Only this file or folder." }),
    from: Schema.optionalKey(Version).annotateKey({
      description: "base (default): as the sandbox found it; working: as it is now; or the number of a checkpoint."
    }),
    to: Schema.optionalKey(Version).annotateKey({ description: "As for from; default working." }),
    ...paging
  }),
  output: Schema.Struct({ note, ...page }),
  run: async ({ limit, offset, sandboxId, ...query }, { client, signal }) => {
    const patch = await client.diffFiles(sandboxId, query as DiffQuery, { signal })
    const range = { ...(limit === undefined ? {} : { limit }), ...(offset === undefined ? {} : { offset }) }
    return { note: UNTRUSTED, ...pageOf(new TextDecoder().decode(patch), range) }
  }
})

const Side = Schema.Literals(["working", "published", "base"])

export const readFile = tool({
  name: "read_file",
  title: "Read a file",
  description:
    "Reads a text file of a sandbox's repository, of at most 1 MiB. Long files come in pages. Changes nothing and costs nothing.",
  ...reads,
  input: Schema.Struct({
    sandboxId,
    path: characters(1, 1000).annotateKey({ description: "Relative to the repository." }),
    repo,
    version: Schema.optionalKey(Side).annotateKey({
      description: "working (default): as it is now; published: as published last; base: as the sandbox found it."
    }),
    ...paging
  }),
  output: Schema.Struct({
    note,
    path: Schema.String,
    exists: Schema.Boolean.annotateKey({ description: "Whether this version of the file exists." }),
    binary: Schema.Boolean.annotateKey({ description: "A binary file has no text." }),
    ...page
  }),
  run: async ({ limit, offset, path, sandboxId, version = "working", ...rest }, { client, signal }) => {
    const file = await client.getFileContent(sandboxId, path, repoOf(rest), { signal })
    const found: FileVersion | null = file[version === "published" ? "head" : version]
    const range = { ...(limit === undefined ? {} : { limit }), ...(offset === undefined ? {} : { offset }) }
    return {
      note: UNTRUSTED,
      path: file.path,
      exists: found !== null,
      binary: found?.binary ?? false,
      ...pageOf(found?.text ?? "", range)
    }
  }
})

const Published = Schema.Struct({
  note,
  repository: Schema.String,
  actionState: Schema.String.annotateKey({ description: "publishing and updating: not done yet; failed: it failed; idle: done." }),
  pullRequest: Schema.NullOr(Schema.Struct({
    number: Schema.Number,
    url: Schema.String,
    title: Schema.String,
    state: Schema.String,
    draft: Schema.Boolean,
    headRef: Schema.String
  })),
  checks: Schema.String.annotateKey({ description: "The checks of the newest commit, in words." }),
  detailsPending: Schema.Boolean.annotateKey({ description: "Some of it is not known yet: call again in a moment." })
})

const publishedOf = (
  { actionState, checks, detailsPending, pullRequest, repository }: PullRequestStatus
): typeof Published.Encoded => {
  if (pullRequest === null) {
    return { note: UNTRUSTED, repository, actionState, pullRequest, checks: checks.label, detailsPending }
  }
  const { draft, headRef, number, state, title, url } = pullRequest
  return {
    note: UNTRUSTED,
    repository,
    actionState,
    pullRequest: { number, url, title, state, draft, headRef },
    checks: checks.label,
    detailsPending
  }
}

export const publishPullRequest = tool({
  name: "publish_pull_request",
  title: "Publish a pull request",
  description: "Commits the changes of a sandbox, pushes them to its own branch and opens a draft pull request, or updates the open one. " +
    "Other people see it, and checks of the source host may run. Safe to repeat. The answer comes within 20 seconds.",
  ...changes,
  openWorldHint: true,
  input: Schema.Struct({
    sandboxId,
    repo,
    ready: Schema.optionalKey(Schema.Boolean).annotateKey({ description: "true: the pull request is no draft. Default false." })
  }),
  output: Published,
  run: async ({ ready, sandboxId, ...rest }, { client, signal }) => {
    const request = { ...repoOf(rest), ...(ready === undefined ? {} : { ready }) }
    return publishedOf(await client.publishPullRequest(sandboxId, request, { signal }))
  }
})
