import * as SourceHostContract from "@slipway/testing/contracts/source/SourceHostContract"
import { register } from "@slipway/testing/runners/Vitest"
import { Effect } from "effect"
import { randomUUID } from "node:crypto"
import { ADA, BOB, CARL, layer, project, TestGitLab } from "./TestGitLab.ts"

/** A project with members, labels and a reviewer. GitLab's groups cannot review: another member takes their place. */
const hosted = (path: () => string): SourceHostContract.Fixture<TestGitLab> => ({
  repository: Effect.fnUntraced(function*(files) {
    const server = yield* TestGitLab
    const { fullName, project: there } = yield* project(files, path())
    const member = { state: "active", expiresAt: null }
    there.members.set(ADA.id, { ...member, user: ADA, level: 30 })
    there.members.set(BOB.id, { ...member, user: BOB, level: 20 })
    there.members.set(CARL.id, { ...member, user: CARL, level: 20 })
    there.labels.add("needs review")
    return {
      fullName,
      // The beginning "Draft: " counts.
      titleCharacters: 248,
      reviewing: {
        label: "needs review",
        team: "carl",
        of: (number) =>
          Effect.sync(() => {
            const found = there.mergeRequests.find(({ iid }) => iid === number)
            return { labels: [...found?.labels ?? []], reviewers: found?.reviewers.length ?? 0 }
          })
      },
      accounts: {
        writer: { id: "7", login: "ada" },
        reader: { id: "8", login: "bob" },
        stranger: { id: "9", login: "carol" },
        renamed: { id: "10", login: "ada" }
      },
      commit: (branch, changes) => Effect.promise(() => there.commit(branch, changes)),
      merge: (head, base) => Effect.promise(() => there.merge(head, base)),
      deleteBranch: (branch) => Effect.promise(() => there.deleteBranch(branch)),
      protect: (branch) => Effect.sync(() => void there.protectedBranches.add(branch)),
      openFromFork: (fork) =>
        Effect.gen(function*() {
          const source = fork === null
            ? null
            : server.projects.find(({ path }) => path === fork) ?? (yield* server.project(fork, { f: "f\n" }))
          if (source !== null) source.members.set(2, { user: { id: 2, username: "deploy" }, level: 10, ...member })
          const opened = yield* Effect.promise(() =>
            there.open({
              author: ADA,
              title: "From a fork",
              description: "",
              sourceBranch: "main",
              targetBranch: "trunk",
              sourceProject: source?.id ?? null
            })
          )
          return opened.iid
        }),
      comment: (number, { line = null, path = null, text }) => Effect.sync(() => void there.note(number, { body: text, line, path }))
    }
  })
})

register(SourceHostContract.suite("gitlab", layer(), hosted(() => `Acme/App-${randomUUID()}`)))
register(SourceHostContract.suite("gitlab, below a path", layer({ prefix: "/gitlab" }), hosted(() => `Acme/App-${randomUUID()}`)))
