/** `slipway pulls`: pull requests of this machine's repositories. */
import { CommitAuthor } from "@slipway/domain/publishing/rules/Publication"
import { Publishing } from "@slipway/domain/publishing/usecases/Publishing"
import { pullStateOf } from "@slipway/domain/source/rules/PullState"
import { sandboxOf } from "@slipway/domain/source/schema/PullRequest"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { webUrlOf } from "@slipway/github/GitHubApi"
import { isCheckout } from "@slipway/local-source/LocalGit"
import { LocalPullRequests } from "@slipway/local-source/LocalPullRequests"
import { type Done, fetchCommands, type LocalPullRequest, mergeCommands } from "@slipway/local-source/PullCommands"
import { Console, DateTime, Effect, Layer, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { styleText } from "node:util"
import * as SourceHosts from "../../service/hosts/SourceHosts.ts"
import * as GitProgram from "../../service/machine/GitProgram.ts"
import * as RunningServices from "../../service/RunningServices.ts"
import { settings as known } from "../../settings/Publishing.ts"
import * as Settings from "../../settings/Settings.ts"
import { columns, json, print } from "../terminal/Output.ts"
import { stores } from "./Administration.ts"

/** No repository of the service is on this machine, so there are no local pull requests. */
class Elsewhere extends Schema.TaggedError<Elsewhere>()("Elsewhere", { place: Schema.String }) {
  override get message() {
    return `pull requests are on ${this.place}`
  }
}

/** Runs `use` with the pull requests of the service in the settings. `page`: the same view on GitHub. */
const onThisMachine = <A, E, R>(page: string, use: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const settings = yield* RunningServices.find(yield* Settings.load)
    const [only] = settings.sourceHosts.list
    if (only?.kind === "github" && settings.sourceHosts.list.length === 1) {
      return yield* new Elsewhere({ place: `GitHub: ${webUrlOf(only.apiUrl)}/${page}` })
    }
    if (!SourceHosts.hasLocal(settings)) {
      return yield* new Elsewhere({ place: settings.sourceHosts.list.map(({ name }) => name).join(", ") })
    }
    yield* GitProgram.version
    // Their addresses are not shown: only the running service knows where it listens.
    const host = SourceHosts.local(settings.publicUrl ?? "")
    return yield* Effect.provide(
      use,
      Layer.merge(LocalPullRequests.layer, Publishing.layer).pipe(
        Layer.provide(host),
        Layer.provideMerge(Layer.merge(stores(settings), SourceHosts.commits(settings)))
      )
    )
  })

const repo = Argument.String("owner/name").pipe(Argument.withDescription("The repository"), Argument.withSchema(RepoName))

const number = Argument.Int("number").pipe(
  Argument.withDescription("The number of the pull request in it"),
  // The range of a number in the database.
  Argument.withSchema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 2 ** 31 - 1 })))
)

const deleteBranch = Flag.Boolean("delete-branch").pipe(
  Flag.withDescription("Also delete its branch; without this it is kept"),
  Flag.withDefault(false)
)

/** The JSON of one pull request. */
const shown = ({ pullRequest, repository }: LocalPullRequest) => {
  const { additions, baseRef, changedFiles, deletions, draft, headRef, headSha, merged, number, state, title } = pullRequest
  return {
    repository: repository.fullName,
    number,
    title,
    state,
    draft,
    merged,
    baseRef,
    headRef,
    headSha,
    additions,
    deletions,
    changedFiles,
    createdAt: DateTime.formatIso(pullRequest.createdAt),
    updatedAt: DateTime.formatIso(pullRequest.updatedAt),
    sandboxId: sandboxOf(headRef) ?? null
  }
}

const oneLine = (text: string): string => text.replaceAll(/\s+/gu, " ")

type Paint = (style: "bold" | "cyan" | "green" | "red", text: string) => string

/** Git's colours. Git itself does not colour, because its sequences would look like those of a file. */
export const painted = (diff: string, paint: Paint): string => {
  let inHunk = false
  return visible(diff).split("\n").map((line) => {
    // Lines of a file never begin like this: they have a mark before them.
    if (line.startsWith("diff --git ")) inHunk = false
    else if (line.startsWith("@@ ")) {
      inHunk = true
      return line.replace(/^@@ .*? @@/u, (place) => paint("cyan", place))
    }
    if (line === "") return line
    if (!inHunk) return paint("bold", line)
    return line.startsWith("+") ? paint("green", line) : line.startsWith("-") ? paint("red", line) : line
  }).join("\n")
}

const paintedStat = (stat: string, paint: Paint): string =>
  visible(stat).replaceAll(
    /(?<=\| +\d+ )(\+*)(-*)$/gmu,
    (_, added: string, removed: string) => (added === "" ? "" : paint("green", added)) + (removed === "" ? "" : paint("red", removed))
  )

/** The reader may stop early, as `head` does. */
const write = (output: string | Buffer) =>
  Effect.callback<void>((resume) => {
    process.stdout.once("error", () => resume(Effect.void))
    process.stdout.write(output, () => resume(Effect.void))
  })

/** On a terminal, makes all text safe. Otherwise writes git's bytes. */
const writeDiff = (bytes: Buffer, paintAll: typeof painted) => {
  const paint: Paint = (style, text) => styleText(style, text, { stream: process.stdout })
  const isRead = process.stdout.isTTY || paint("bold", "x") !== "x"
  return write(isRead ? paintAll(bytes.toString(), paint) : bytes)
}

const filter = {
  repo: Flag.String("repo").pipe(
    Flag.withDescription("Only pull requests of this repository, owner/name"),
    Flag.withSchema(RepoName),
    Flag.optional
  ),
  state: Flag.Literals("state", ["open", "closed", "all"]).pipe(
    Flag.withDescription("open, closed (merged ones too) or all"),
    Flag.withDefault("open" as const)
  ),
  json
}

const showList = (
  { json, repo, state }: { readonly repo: Option.Option<RepoName>; readonly state: "open" | "closed" | "all"; readonly json: boolean }
) => {
  const only = Option.getOrNull(repo)
  return onThisMachine(
    only === null ? "pulls" : `${only}/pulls`,
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const { pullRequests, unreadable } = yield* pulls.list({ repo: only, state })
      for (const { fullName, path } of unreadable) {
        yield* Console.error(
          `slipway: the open pull requests of ${fullName} are left out, because ${path} cannot be read as a git repository`
        )
      }
      yield* print(
        json,
        pullRequests.map(shown),
        () =>
          pullRequests.length === 0 ? `No ${state === "all" ? "" : `${state} `}pull requests.` : columns([
            ["REPOSITORY", "NUMBER", "STATE", "BRANCH", "CHANGES", "UPDATED", "TITLE"],
            ...pullRequests.map((one) => {
              const { additions, deletions, headRef, number, repository, title, updatedAt } = shown(one)
              return [repository, String(number), pullStateOf(one.pullRequest), headRef, `+${additions} -${deletions}`, updatedAt,
                oneLine(title)]
            })
          ])
      )
    })
  )
}

const list = Command.make("list", filter, showList).pipe(
  Command.withDescription("List pull requests in order of the last change, newest first"),
  Command.withExamples([{ command: "slipway pulls list --repo acme/shop --state all", description: "All pull requests of a repository" }])
)

const show = Command.make(
  "show",
  { repo, number, json },
  ({ json, number, repo }) =>
    onThisMachine(
      `${repo}/pull/${number}`,
      Effect.gen(function*() {
        const pulls = yield* LocalPullRequests
        const found = yield* pulls.find(repo, number)
        const { additions, baseRef, changedFiles, createdAt, deletions, headRef, headSha, repository, sandboxId, state, title, updatedAt } =
          shown(found)
        const fetch = fetchCommands(found)
        const merge = mergeCommands(found)
        const isOpen = state === "open"
        const where = isCheckout(found.repository.path) ? "" : ", in any clone of the repository"
        yield* print(json, { ...shown(found), path: found.repository.path, ...(isOpen ? { fetch, merge } : {}) }, () =>
          [
            `${repository} #${number}: ${oneLine(title)}`,
            "",
            columns([
              ["State", pullStateOf(found.pullRequest)],
              ["Branch", `${headRef} into ${baseRef}`],
              ["Commit", headSha],
              ["Changes", `+${additions} -${deletions} in ${changedFiles} ${changedFiles === 1 ? "file" : "files"}`],
              ["Opened", createdAt],
              ["Updated", updatedAt],
              ["Sandbox", sandboxId ?? "none"],
              ["Repository", found.repository.path]
            ]),
            "",
            `See what it changes:\n  slipway pulls diff ${repository} ${number}`,
            ...(isOpen
              ? [
                "",
                `Merge it:\n  slipway pulls merge ${repository} ${number}`,
                "",
                `Try it, in any clone of the repository:\n${fetch.map((line) => `  ${line}`).join("\n")}`,
                "",
                `Or merge it with plain git${where}:\n${merge.map((line) => `  ${line}`).join("\n")}`
              ]
              : [])
          ].join("\n"))
      })
    )
).pipe(
  Command.withDescription("Show a pull request, and how to try and merge it with plain git"),
  Command.withExamples([{ command: "slipway pulls show acme/shop 1", description: "The first one of acme/shop" }])
)

const diff = Command.make("diff", {
  repo,
  number,
  stat: Flag.Boolean("stat").pipe(Flag.withDescription("Only the files, and how many of their lines changed"), Flag.withDefault(false))
}, ({ number, repo, stat }) =>
  onThisMachine(
    `${repo}/pull/${number}/files`,
    Effect.gen(function*() {
      const pulls = yield* LocalPullRequests
      const output = yield* pulls.diff(repo, number, { isWhole: true, statWidth: stat ? process.stdout.columns ?? 80 : undefined })
      yield* writeDiff(output, stat ? paintedStat : painted)
    })
  )).pipe(
    Command.withDescription(
      "Print what the branch of a pull request changed since it left its base.\n\n" +
        "On a terminal in colour, with control characters made visible; elsewhere a patch that git apply takes."
    ),
    Command.withShortDescription("Print what a pull request changes"),
    Command.withExamples([
      { command: "slipway pulls diff acme/shop 1 --stat", description: "Which files it changes" },
      { command: "slipway pulls diff acme/shop 1 | git apply", description: "Try it without its commits" }
    ])
  )

/** Tells the sandbox's readers at once; otherwise they would see it at their next poll. */
const tell = ({ pullRequest: { headRef }, repository: { fullName } }: LocalPullRequest) =>
  Effect.flatMap(Publishing, (publishing) => publishing.follow(fullName, headRef)).pipe(
    Effect.catch((error) => Effect.logWarning("the sandbox's events do not show it yet", { reason: error.message }))
  )

const ofBranch = ({ branchDeleted, pullRequest: { headRef } }: Done): string =>
  branchDeleted ? `Its branch ${headRef} is deleted.` : `Its branch ${headRef} is kept.`

const report = (json: boolean, done: Done, text: () => string) =>
  Effect.andThen(tell(done), print(json, { ...shown(done), changed: done.changed, branchDeleted: done.branchDeleted }, text))

const close = Command.make(
  "close",
  { repo, number, deleteBranch, json },
  ({ deleteBranch, json, number, repo }) =>
    onThisMachine(
      `${repo}/pull/${number}`,
      Effect.gen(function*() {
        const pulls = yield* LocalPullRequests
        const done = yield* pulls.close(repo, number, { deleteBranch })
        const name = `${done.repository.fullName} #${number}`
        yield* report(json, done, () => done.changed ? `Closed ${name}. ${ofBranch(done)}` : `Already closed: ${name}.`)
      })
    )
).pipe(
  Command.withDescription("Close a pull request without merging it. The next publication of its sandbox opens another one."),
  Command.withShortDescription("Close a pull request without merging it"),
  Command.withExamples([{ command: "slipway pulls close acme/shop 1 --delete-branch", description: "And delete its branch" }])
)

const merge = Command.make(
  "merge",
  { repo, number, deleteBranch, json },
  ({ deleteBranch, json, number, repo }) =>
    onThisMachine(
      `${repo}/pull/${number}`,
      Effect.gen(function*() {
        const pulls = yield* LocalPullRequests
        const done = yield* pulls.merge(repo, number, { author: yield* CommitAuthor, deleteBranch })
        const { baseRef, headRef, merged } = done.pullRequest
        const name = `${done.repository.fullName} #${number}`
        const files = done.checkout === undefined ? "" : `, with the files in ${done.checkout}`
        yield* report(json, done, () =>
          !done.changed ?
            `Already merged: ${name}.`
            : merged ?
            `Merged ${name} into ${baseRef}${files}. ${ofBranch(done)}`
            : `Merged what ${name} had into ${baseRef}; it stays open for newer commits of ${headRef}.`)
      })
    )
).pipe(
  Command.withDescription(
    `Merge a pull request into its base branch, with a merge commit by ${known.author.name}. Drafts too: all that Slipway opens are.\n\n` +
      "A checkout of the base branch without uncommitted changes follows. Otherwise, and for a conflict, the command prints how to " +
      "merge with git."
  ),
  Command.withShortDescription("Merge a pull request into its base branch"),
  Command.withExamples([{ command: "slipway pulls merge acme/shop 1", description: "Keeps its branch" }])
)

export const pulls = Command.make("pulls", filter, showList).pipe(
  Command.withDescription(
    "Pull requests of the repositories of this machine: list, show, diff, close, merge.\n\n" +
      "Without a command, the open ones are listed. With a GitHub App, pull requests are on GitHub."
  ),
  Command.withExamples([
    { command: "slipway pulls", description: "Those that are open" },
    { command: "slipway pulls diff acme/shop 1", description: "What one changes" }
  ]),
  Command.withSubcommands([list, show, diff, close, merge])
)
