/** The key that signs published commits. */
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import * as SigningKey from "@slipway/git/publish/SigningKey"
import { Effect } from "effect"
import { settings } from "../settings/Publishing.ts"
import { InvalidSetting } from "../settings/Setting.ts"
import type { Settings } from "../settings/Settings.ts"

/** The key of the settings; `null`: commits are not signed. No text of this process shows the content of its file. */
export const find = Effect.fn("CommitSigning.find")(function*({ commit: { signingKeyFile: file } }: Pick<Settings, "commit">) {
  if (file === null) return null
  return yield* SigningKey.readText(file).pipe(
    Effect.tap((text) => Redaction.useSync((redactor) => redactor.learn(text))),
    Effect.flatMap(SigningKey.parse),
    Effect.mapError(({ problem }) =>
      new InvalidSetting({
        setting: settings.signingKeyFile.name,
        expected: `the file of an SSH private key without a passphrase, and ${file} is not: ${problem}`
      })
    )
  )
})
