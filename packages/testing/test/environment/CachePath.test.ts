import { assert, describe, it } from "@effect/vitest"
import * as CachePath from "@slipway/domain/environment/rules/CachePath"
import { AGENTS, CREDENTIALS } from "@slipway/domain/environment/rules/PrivatePaths"
import { isGitPath, isProtected } from "@slipway/domain/source/rules/FileRules"
import { path } from "@slipway/testing/histories/Arbitraries"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

const problem = (text: string) => Result.match(CachePath.parse(text), { onFailure: (said) => said, onSuccess: () => "none" })

/** Files in which tools and agents are known to keep what is private, below the home. */
const PRIVATE_FILES = {
  credentials: [
    ".bash_aliases .bash_history .bash_login .bash_logout .bash_profile .bashrc .profile .pam_environment",
    ".zlogin .zlogout .zprofile .zsh_history .zshenv .zshrc .config/fish/config.fish .config/environment.d/token.conf",
    ".git-credentials .gitconfig .config/git/credentials .config/gh/hosts.yml .config/glab-cli/config.yml .config/hub",
    ".curlrc .netrc .wgetrc .vault-token .ssh/id_ed25519 .gnupg/private-keys-v1.d/a.key .password-store/mail.gpg",
    ".config/op/config .config/rclone/rclone.conf .local/share/keyrings/login.keyring",
    ".aws/credentials .azure/msal_token_cache.json .boto .oci/config .s3cfg .config/gcloud/credentials.db .config/doctl/config.yaml",
    ".config/hcloud/cli.toml .config/helm/registry/config.json .config/containers/auth.json .docker/config.json .kube/config",
    ".terraformrc .terraform.d/credentials.tfrc.json",
    ".cache/huggingface/token .huggingface/token .config/huggingface/token .config/.wrangler/config/default.toml .wrangler/config.toml",
    ".config/configstore/firebase-tools.json .config/heroku/config.json .config/netlify/config.json .netlify/config.json",
    ".config/stripe/config.toml .fly/config.yml .kaggle/kaggle.json .local/share/com.vercel.cli/auth.json .vercel/auth.json",
    ".railway/config.json .sentryclirc .supabase/access-token .twilio-cli/config.json",
    ".my.cnf .mylogin.cnf .pg_service.conf .pgpass",
    ".bunfig.toml .npmrc .pnpmrc .config/pnpm/rc .yarnrc .yarnrc.yml",
    ".condarc .pypirc .pip/pip.conf .config/pip/pip.conf .config/pypoetry/auth.toml .config/uv/uv.toml",
    ".local/share/uv/credentials/credentials.toml",
    ".cargo/config .cargo/config.toml .cargo/credentials .cargo/credentials.toml .config/go/env",
    ".bundle/config .gem/credentials .local/share/gem/credentials .composer/auth.json .config/composer/auth.json",
    ".config/NuGet/NuGet.Config .nuget/NuGet/NuGet.Config .config/dart/pub-credentials.json .hex/hex.config",
    ".gradle/gradle.properties .gradle/init.gradle .gradle/init.gradle.kts .gradle/init.d/mirror.gradle",
    ".m2/settings.xml .m2/settings-security.xml .ivy2/.credentials .sbt/.credentials .sbt/credentials"
  ],
  agents: [
    ".agents/skills/deploy/SKILL.md .claude/settings.json .claude.json .codex/auth.json .grok/user-settings.json",
    ".cache/opencode/version .config/opencode/opencode.json .local/share/opencode/auth.json .local/state/opencode/model.json",
    ".opencode/opencode.json .slipway/AGENTS.md .slipway-offline/log"
  ]
}

describe("a folder that is cached", () => {
  it.each<readonly [text: string, base: "tree" | "home", path: string]>([
    ["node_modules", "tree", "node_modules"],
    ["./packages//a/./node_modules/", "tree", "packages/a/node_modules"],
    ["a/../b", "tree", "b"],
    ["a/~/b", "tree", "a/~/b"],
    ["~/.npm", "home", ".npm"],
    ["~/.cache/pip/", "home", ".cache/pip"],
    ["~/.cargo/registry", "home", ".cargo/registry"],
    ["~/.m2/repository", "home", ".m2/repository"],
    ["~/.gradle/caches", "home", ".gradle/caches"]
  ])("may be %s", (text, base, path) => assert.deepStrictEqual(CachePath.parse(text), Result.succeed({ base, path })))

  it.each([
    ["../a", "climbs out of the tree"],
    ["a/../..", "climbs out of the tree"],
    ["~/..", "climbs out of the home"],
    ["~/a/../../b", "climbs out of the home"],
    ["", "is the whole of the tree"],
    ["./a/..", "is the whole of the tree"],
    ["~", "is the whole home"],
    ["~/", "is the whole of the home"],
    ["~root/.npm", "is in another user's home"],
    ["a/../~root", "is in another user's home"],
    ["a/../~", "is in another user's home"],
    ["/tmp/a", "starts with /: name a path in the tree, or ~/ and a path below the home"],
    ["~//etc", "starts with /: name a path in the tree, or ~/ and a path below the home"],
    ["packages/*/node_modules", "is a pattern: name each folder"],
    [".git", "is git's own"],
    ["a/.GIT/objects", "is git's own"],
    [".env.local", "is a protected file or folder"],
    [".claude/skills", "is a protected file or folder"],
    ["~/.claude", "is a protected file or folder"],
    ["~/.codex/sessions", "is a protected file or folder"],
    ["~/.grok", "is a protected file or folder"],
    ["~/.npmrc", "is a protected file or folder"],
    ["~/.git-credentials", "is a protected file or folder"],
    ["~/.ssh/keys", "is where an agent or a tool keeps what is private"],
    ["~/.local/share/opencode", "is where an agent or a tool keeps what is private"],
    ["~/.local", "holds ~/.local/share/opencode, which is private: name a folder in it"],
    ["~/.cache", "holds ~/.cache/opencode, which is private: name a folder in it"],
    ["~/.cargo", "holds ~/.cargo/config, which is private: name a folder in it"],
    ["~/.config/./x/..", "holds ~/.config/opencode, which is private: name a folder in it"]
  ])("is never %j: it %s", (text, said) => assert.strictEqual(problem(text), said))

  it.each([...AGENTS, ...CREDENTIALS].filter((path) => !isProtected(path)))("is never %s of the home", (path) => {
    assert.strictEqual(problem(`~/${path}`), "is where an agent or a tool keeps what is private")
    assert.strictEqual(problem(path), "none")
  })

  it.each(["~/.config/nvim", "~/.local/share/fonts", "~/.local/share/uv/tools", "~/.cache/huggingface/hub", "~/.terraform.d/plugin-cache",
    "~/.config/containers/storage", "~/.config/go/telemetry", "~/.bundle/cache", "~/.composer/cache", "~/.gem/ruby", "~/.hex/packages",
    "~/.nuget/packages", "~/.ivy2/cache", "~/.sbt/boot", "~/.pypirc.d", "~/.sshd", "~/.claude-cache", "~/.awsome"])(
      "may be %s, which is beside what is private",
      (path) => assert.strictEqual(problem(path), "none")
    )

  it.each([
    ["credentials", CREDENTIALS, PRIVATE_FILES.credentials],
    ["files of agents", AGENTS, PRIVATE_FILES.agents]
  ])("is never one with %s: each listed path has an example, and each example its path", (_, listed, examples) => {
    const files = examples.flatMap((line) => line.split(" "))
    for (const file of files) assert.isTrue(Result.isFailure(CachePath.parse(`~/${file}`)), file)
    assert.sameMembers([...listed], files.map((file) => listed.find((path) => file === path || file.startsWith(`${path}/`)) ?? file))
  })

  it("is never what is private, of which no path lies in another, and all are plain words of a shell", () => {
    const all = [...AGENTS, ...CREDENTIALS]
    for (const path of all) {
      assert.match(path, /^\.[\w./-]+$/u)
      assert.isTrue(Result.isFailure(CachePath.parse(`~/${path}`)), path)
      assert.isTrue(Result.isFailure(CachePath.parse(`~/${path}/x`)), path)
      assert.deepStrictEqual(all.filter((other) => other === path || path.startsWith(`${other}/`)), [path])
    }
  })

  it("may be in the tree what is private below the home", () => assert.strictEqual(problem(".cache"), "none"))

  it("overlaps with itself, with what it holds and with what holds it, on its own side alone", () => {
    const overlap = (a: string, b: string) =>
      CachePath.overlap(Result.getOrThrow(CachePath.parse(a)), Result.getOrThrow(CachePath.parse(b)))
    assert.isTrue(overlap("a", "a") && overlap("a/b", "a") && overlap("a", "a/b"))
    assert.isFalse(overlap("a", "ab") || overlap("a", "~/a") || overlap("a/b", "a/c"))
  })

  it.prop("stays where it is, whatever was written, and is written the same way again", [path, Schema.Boolean], ([text, isHome]) => {
    const parsed = CachePath.parse(isHome ? `~/${text}` : text)
    if (Result.isFailure(parsed)) return
    const { path } = parsed.success
    assert.isFalse(path.startsWith("/") || path.split("/").some((segment) => ["", ".", ".."].includes(segment)), path)
    assert.isFalse(isGitPath(path) || isProtected(path), path)
    assert.deepStrictEqual(CachePath.parse(CachePath.show(parsed.success)), parsed)
  }, { arbitrary: { runs: 300 } })
})
