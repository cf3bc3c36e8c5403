/** GitHub as the source host and for sign-in. */
import * as Effect from "effect/Effect"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

/** The App for repositories and pull requests. */
export const app = {
  appId: Setting.optional({
    name: "SLIPWAY_GITHUB_APP_ID",
    type: Type.pattern("the id of a GitHub App", /^[A-Za-z0-9.]{1,100}$/u),
    about: "Id or client id of the GitHub App for repositories and pull requests. " +
      "Without it, the hosts of SLIPWAY_SOURCE_HOSTS, or repositories of this machine; see slipway repos.",
    role: "all"
  }),
  privateKeyFile: Setting.optional({
    name: "SLIPWAY_GITHUB_PRIVATE_KEY_FILE",
    type: Type.file,
    about: "File with the private key of the GitHub App, from GitHub.",
    role: "all"
  }),
  webhookSecret: Setting.optional({
    name: "SLIPWAY_GITHUB_WEBHOOK_SECRET",
    type: Type.redacted(Type.parsed("at least 16 characters", (value) => value.length >= 16)),
    about: "Secret of the App's webhook at /hooks/source-host. Without it, changes on GitHub are seen within minutes.",
    role: "http",
    secret: true
  })
}

/** The App for sign-in. */
export const signIn = {
  clientId: Setting.optional({
    name: "SLIPWAY_GITHUB_CLIENT_ID",
    type: Type.pattern("the client id of a GitHub App", /^[A-Za-z0-9.]{1,100}$/u),
    about: "Client id of the GitHub App, possibly another one, for signing in. Without it, no sign-in with GitHub.",
    role: "http"
  }),
  clientSecretFile: Setting.optional({
    name: "SLIPWAY_GITHUB_CLIENT_SECRET_FILE",
    type: Type.file,
    about: "File with a client secret of that GitHub App, and nothing else.",
    role: "http"
  })
}

export const both = {
  apiUrl: Setting.withDefault({
    name: "SLIPWAY_GITHUB_API_URL",
    type: Type.webAddress,
    default: "https://api.github.com",
    about: "API of GitHub; of GitHub Enterprise Server https://HOST/api/v3.",
    role: "all"
  })
}

/** `null`: repositories of this machine. The settings of a GitHub App are required together. */
export const loadApp = Effect.gen(function*() {
  const { appId, privateKeyFile, webhookSecret } = yield* Setting.values(app)
  const { apiUrl } = yield* Setting.values(both)
  if (appId === null && privateKeyFile === null && webhookSecret === null) return null
  if (appId === null || privateKeyFile === null) {
    const lacking = appId === null ? app.appId : app.privateKeyFile
    return yield* new Setting.InvalidSetting({ setting: lacking.name, expected: "set when another one of the GitHub App is" })
  }
  return { appId, privateKeyFile, webhookSecret, apiUrl }
})

/** `null`: no sign-in with GitHub. */
export const loadSignIn = Effect.gen(function*() {
  const { clientId, clientSecretFile } = yield* Setting.values(signIn)
  if (clientId === null && clientSecretFile === null) return null
  if (clientId === null || clientSecretFile === null) {
    const [lacking, given] = clientId === null ? [signIn.clientId, signIn.clientSecretFile] : [signIn.clientSecretFile, signIn.clientId]
    return yield* new Setting.InvalidSetting({ setting: lacking.name, expected: `set when ${given.name} is` })
  }
  return { clientId, clientSecretFile, apiUrl: (yield* Setting.values(both)).apiUrl }
})
