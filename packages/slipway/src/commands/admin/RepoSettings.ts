/** `slipway repos settings`: labels, reviewers, co-author and feedback of a repository's pull requests in a grant, and its .mcp.json. */
import { RepositorySettings } from "@slipway/domain/source/ports/RepositorySettings"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { RepoSettings } from "@slipway/domain/source/schema/RepoSettings"
import { DateTime, Effect, Option, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { columns, json, print } from "../terminal/Output.ts"
import { administration } from "./Administration.ts"
import { grantOf } from "./Partners.ts"

const { feedback: { fields: feedback } } = RepoSettings.fields

const flags = {
  label: Flag.String("label").pipe(Flag.withDescription("Label of new pull requests; repeatable"), Flag.atLeast(0)),
  noLabels: Flag.Boolean("no-labels").pipe(Flag.withDescription("No labels"), Flag.withDefault(false)),
  reviewer: Flag.String("reviewer").pipe(
    Flag.withDescription("Login, or organization/team, that reviews new pull requests; repeatable"),
    Flag.atLeast(0)
  ),
  noReviewers: Flag.Boolean("no-reviewers").pipe(Flag.withDescription("No reviewers"), Flag.withDefault(false)),
  coAuthor: Flag.Literals("co-author", ["on", "off"]).pipe(
    Flag.withDescription("Whether commits name the sandbox's creator as co-author"),
    Flag.optional
  ),
  comments: Flag.Literals("comments", feedback.comments.literals).pipe(
    Flag.withDescription("Comments that the sandbox gets as feedback"),
    Flag.optional
  ),
  checks: Flag.Literals("checks", feedback.checks.literals).pipe(
    Flag.withDescription("Checks that the sandbox gets as feedback"),
    Flag.optional
  ),
  rounds: Flag.Int("rounds").pipe(Flag.withDescription("Rounds of feedback without a person's word, 1 to 20"), Flag.optional),
  publish: Flag.Literals("publish", ["on", "off"]).pipe(Flag.withDescription("Whether a round that succeeded is published"), Flag.optional),
  mcpFile: Flag.Literals("mcp-file", ["on", "off"]).pipe(
    Flag.withDescription("Whether agents have the MCP servers of the repository's .mcp.json that are commands"),
    Flag.optional
  )
}

/** The flags contradict each other, or a value is not allowed. */
class WrongSettings extends Schema.TaggedError<WrongSettings>()("WrongSettings", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

const decode = Schema.decodeUnknownEffect(RepoSettings)

const lines = ({ coAuthor, feedback, labels, mcpFile, reviewers }: RepoSettings): string =>
  columns([
    ["labels", labels.join(", ") || "none"],
    ["reviewers", reviewers.join(", ") || "none"],
    ["co-author", coAuthor ? "on" : "off"],
    ["comments", feedback.comments],
    ["checks", feedback.checks],
    ["rounds", String(feedback.rounds)],
    ["publish", feedback.publish ? "on" : "off"],
    ["mcp-file", mcpFile ? "on" : "off"]
  ])

export const settings = Command.make(
  "settings",
  {
    name: Argument.String("owner/name").pipe(Argument.withDescription("Repository"), Argument.withSchema(RepoName)),
    grant: Flag.String("grant").pipe(Flag.withDescription("Grant id or name")),
    ...flags,
    json
  },
  ({ checks, coAuthor, comments, grant, json, label, mcpFile, name: repo, noLabels, noReviewers, publish, reviewer, rounds }) =>
    administration(Effect.gen(function*() {
      if (noLabels && label.length > 0 || noReviewers && reviewer.length > 0) {
        return yield* new WrongSettings({ detail: "--no-labels and --no-reviewers do not go with names" })
      }
      const store = yield* RepositorySettings
      const of = { grantId: (yield* grantOf(grant)).id, repo }
      const before = yield* store.of(of)
      const isOn = Option.map((value: "on" | "off") => value === "on")
      const changed = yield* decode({
        labels: noLabels ? [] : label.length > 0 ? label : before.labels,
        reviewers: noReviewers ? [] : reviewer.length > 0 ? reviewer : before.reviewers,
        coAuthor: Option.getOrElse(isOn(coAuthor), () => before.coAuthor),
        feedback: {
          comments: Option.getOrElse(comments, () => before.feedback.comments),
          checks: Option.getOrElse(checks, () => before.feedback.checks),
          rounds: Option.getOrElse(rounds, () => before.feedback.rounds),
          publish: Option.getOrElse(isOn(publish), () => before.feedback.publish)
        },
        mcpFile: Option.getOrElse(isOn(mcpFile), () => before.mcpFile)
      }).pipe(Effect.mapError(({ message }) => new WrongSettings({ detail: message })))
      yield* store.set(of, changed, yield* DateTime.now)
      yield* print(json, { repo, settings: changed }, () => lines(changed))
    }))
).pipe(
  Command.withDescription("Show or change the settings of a repository in a grant; what no flag names stays"),
  Command.withExamples([
    { command: "slipway repos settings acme/shop --grant acme", description: "Show them" },
    { command: "slipway repos settings acme/shop --grant acme --label agent --reviewer ada", description: "For new pull requests" },
    { command: "slipway repos settings acme/shop --grant acme --comments mention --checks failing", description: "Feedback" },
    { command: "slipway repos settings acme/shop --grant acme --mcp-file on", description: "MCP servers of its .mcp.json" }
  ])
)
