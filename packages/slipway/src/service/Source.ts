/** The host of repositories and pull requests: GitHub if the service has a GitHub App, otherwise this machine. */
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import { CommitAuthor, CommitMessage } from "@slipway/domain/publishing/rules/Publication"
import { PublicAddress } from "@slipway/domain/publishing/rules/PullRequestText"
import * as GitHubApi from "@slipway/github/GitHubApi"
import * as PullRequestFeedbackGitHub from "@slipway/github/PullRequestFeedbackGitHub"
import * as RepositoryNewsGitHub from "@slipway/github/RepositoryNewsGitHub"
import * as SourceHostEventsGitHub from "@slipway/github/SourceHostEventsGitHub"
import * as SourceHostGitHub from "@slipway/github/SourceHostGitHub"
import { LocalPullRequests } from "@slipway/local-source/LocalPullRequests"
import * as PullRequestFeedbackLocal from "@slipway/local-source/PullRequestFeedbackLocal"
import * as SourceHostLocal from "@slipway/local-source/SourceHostLocal"
import { Effect, Layer, Redacted } from "effect"
import { readFile } from "node:fs/promises"
import { app as settings, both } from "../settings/GitHub.ts"
import { InvalidSetting } from "../settings/Setting.ts"
import type { Settings } from "../settings/Settings.ts"

const privateKey = (file: string) =>
  Effect.tryPromise({
    try: async () => Redacted.make(await readFile(file, "utf8")),
    catch: () => new InvalidSetting({ setting: settings.privateKeyFile.name, expected: "a file that this process can read", found: file })
  }).pipe(Effect.tap((key) => Redaction.useSync((redactor) => redactor.learn(Redacted.value(key)))))

/** The source host of this process, the feedback on its pull requests, and `PullRequests` if the host has no pages for them. */
export const host = ({ github }: Pick<Settings, "github">, publicUrl: string) =>
  github === null
    ? Layer.merge(LocalPullRequests.layerPages, PullRequestFeedbackLocal.layer).pipe(
      Layer.provideMerge(SourceHostLocal.layer({ publicUrl }))
    )
    : Layer.unwrap(Effect.map(privateKey(github.privateKeyFile), (privateKey) => {
      const app = { appId: github.appId, apiUrl: github.apiUrl, privateKey }
      return Layer.merge(SourceHostGitHub.layer(app), PullRequestFeedbackGitHub.layer(app))
    }))

/** The GitHub App as registered at GitHub. Every error says what to check. */
export const app = ({ apiUrl, appId, privateKeyFile }: NonNullable<Settings["github"]>) =>
  Effect.gen(function*() {
    const api = yield* GitHubApi.make({ appId, apiUrl, privateKey: yield* privateKey(privateKeyFile) })
    return yield* api.app
  }).pipe(Effect.mapError((error) => {
    if (error._tag === "InvalidSetting") return error.message
    const { appId: id, privateKeyFile: file } = settings
    if (error._tag === "SourceHostError") return `${error.detail} Check ${file.name} and ${both.apiUrl.name}.`
    return error.status === 401
      ? `${error.detail} Check ${id.name} and ${file.name}.`
      : `${error.detail} Check ${both.apiUrl.name}, and whether this machine can reach ${apiUrl}.`
  }))

/** The events that GitHub sends, if webhooks are configured. */
export const news = ({ github }: Pick<Settings, "github">) =>
  github === null || github.webhookSecret === null ? Layer.empty : SourceHostEventsGitHub.layer({ secret: github.webhookSecret })

/** Asks GitHub for news of repositories. The local host tells of its own by itself. */
export const polling = ({ github }: Pick<Settings, "github">) =>
  github === null ?
    Layer.empty :
    Layer.unwrap(Effect.map(privateKey(github.privateKeyFile), (privateKey) =>
      RepositoryNewsGitHub.layer({ appId: github.appId, apiUrl: github.apiUrl, privateKey })))

/** The author and the message of commits, and the address in pull requests. */
export const commits = ({ commit, publicUrl }: Pick<Settings, "commit" | "publicUrl">) =>
  Layer.mergeAll(
    Layer.succeed(CommitAuthor, commit.author),
    Layer.succeed(CommitMessage, commit.message),
    Layer.succeed(PublicAddress, publicUrl)
  )

/** One line. */
export const summary = ({ github }: Pick<Settings, "github">): string =>
  github === null ? "repositories of this machine (slipway repos)" : `GitHub App ${github.appId} at ${new URL(github.apiUrl).host}`
