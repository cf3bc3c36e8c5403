/** Where repositories and pull requests live: GitHub when the service was given a GitHub App, else this machine. */
import * as GitHubApi from "@slipway/adapters/github/GitHubApi"
import * as HostNewsGitHub from "@slipway/adapters/github/HostNewsGitHub"
import * as SourceHostGitHub from "@slipway/adapters/github/SourceHostGitHub"
import * as SourceHostLocal from "@slipway/adapters/local-source/SourceHostLocal"
import { Redaction } from "@slipway/adapters/redaction/Redaction"
import { CommitAuthor, CommitMessage } from "@slipway/domain/publishing/Publication"
import { Effect, Layer, Redacted } from "effect"
import { readFile } from "node:fs/promises"
import { InvalidSetting, type Settings, settings as known } from "./Settings.ts"

const privateKey = (file: string) =>
  Effect.tryPromise({
    try: async () => Redacted.make(await readFile(file, "utf8")),
    catch: () =>
      new InvalidSetting({ setting: known.githubPrivateKeyFile.name, expected: "a file that this process can read", found: file })
  }).pipe(Effect.tap((key) => Redaction.useSync((redactor) => redactor.learn(Redacted.value(key)))))

/** The source host of this process. */
export const host = ({ github }: Pick<Settings, "github">, publicUrl: string) =>
  github === null
    ? SourceHostLocal.layer({ publicUrl })
    : Layer.unwrap(Effect.map(privateKey(github.privateKeyFile), (privateKey) =>
      SourceHostGitHub.layer({ appId: github.appId, apiUrl: github.apiUrl, privateKey })))

/** The GitHub App as GitHub knows it. Whatever is wrong with it, the message says what to look at. */
export const app = ({ apiUrl, appId, privateKeyFile }: NonNullable<Settings["github"]>) =>
  Effect.gen(function*() {
    const api = yield* GitHubApi.make({ appId, apiUrl, privateKey: yield* privateKey(privateKeyFile) })
    return yield* api.app
  }).pipe(Effect.mapError((error) => {
    if (error._tag === "InvalidSetting") return error.message
    const { githubApiUrl, githubAppId, githubPrivateKeyFile } = known
    if (error._tag === "SourceHostError") return `${error.detail} Check ${githubPrivateKeyFile.name} and ${githubApiUrl.name}.`
    return error.status === 401
      ? `${error.detail} Check ${githubAppId.name} and ${githubPrivateKeyFile.name}.`
      : `${error.detail} Check ${githubApiUrl.name}, and whether this machine can reach ${apiUrl}.`
  }))

/** What it tells by itself, where that was set up. */
export const news = ({ github }: Pick<Settings, "github">) =>
  github === null || github.webhookSecret === null ? Layer.empty : HostNewsGitHub.layer({ secret: github.webhookSecret })

/** Takes them out of the environment that the programs we start inherit. */
export const hideSecrets = Effect.sync(() => {
  for (const { name, secret } of Object.values(known)) if (secret === true) delete process.env[name]
})

/** How commits are signed and called. */
export const commits = ({ commit }: Pick<Settings, "commit">) =>
  Layer.mergeAll(Layer.succeed(CommitAuthor, commit.author), Layer.succeed(CommitMessage, commit.message))

/** One line. */
export const summary = ({ github }: Pick<Settings, "github">): string =>
  github === null ? "repositories of this machine (slipway repos)" : `GitHub App ${github.appId} at ${new URL(github.apiUrl).host}`
