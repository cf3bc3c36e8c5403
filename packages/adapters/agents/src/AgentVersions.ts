/**
 * The digests of the packages that `slipway agents install` fetches, from the npm registry on the day of `on` (`npm view SPEC
 * dist.integrity`), beside the versions of the profiles. Other packages are never installed. A platform without a build in the registry
 * at that time has no entry.
 */
import type { Platform } from "./Profile.ts"

/** One package of the npm registry. */
export interface Pin {
  /** `name@version`. */
  readonly spec: string
  /** Its folder below `node_modules`. */
  readonly folder: string
  /** SHA-512 of its tarball, in npm's format. */
  readonly integrity: string
}

/** The packages of an agent. */
interface Packages {
  /** The day on which this was the newest version of the registry, as `2026-11-30`. */
  readonly on: string
  /** They belong to every platform. */
  readonly all: ReadonlyArray<Pin>
  /** By platform, `os-arch`. */
  readonly builds: { readonly [platform: string]: ReadonlyArray<Pin> }
}

export const codex: Packages = {
  on: "2026-11-30",
  all: [
    {
      spec: "@openai/codex@0.171.0",
      folder: "@openai/codex",
      integrity: "sha512-1IOFzL2Xg86tLdw6kDo3GoKbkQENgQi7TI6rlEvN132R7ngSw7SNOIQoTcnKzSZZ8kf9N9GynCweSoaFbqk2Eg=="
    }
  ],
  builds: {
    "linux-x64": [
      {
        spec: "@openai/codex@0.171.0-linux-x64",
        folder: "@openai/codex-linux-x64",
        integrity: "sha512-l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw=="
      }
    ],
    "linux-arm64": [
      {
        spec: "@openai/codex@0.171.0-linux-arm64",
        folder: "@openai/codex-linux-arm64",
        integrity: "sha512-9z17t4bbUJ9UCIb49O4PoA+ki+45q3rd8nZ8PeH6sYnlKkBld/Xpo/OS3h3Ti954+foshX4o7k5TCU8N7zzqQA=="
      }
    ],
    "darwin-x64": [
      {
        spec: "@openai/codex@0.171.0-darwin-x64",
        folder: "@openai/codex-darwin-x64",
        integrity: "sha512-pwN5uNEKx/mZjwBEf/6CKq6SJMfJS5kruV3sJQAk7ebIPvC58Ote3CicIxETDZtjLj35rNv3PLPd7mHCg6hGPw=="
      }
    ],
    "darwin-arm64": [
      {
        spec: "@openai/codex@0.171.0-darwin-arm64",
        folder: "@openai/codex-darwin-arm64",
        integrity: "sha512-hIYTkRUpuYpkVfTq4cpby0PXqhAVcIgE7f6FoyY1lt2RyARj3GXS1Can/dIYUBItVhXzhb98HYHZNzCX74QRlQ=="
      }
    ]
  }
}

export const claude: Packages = {
  on: "2026-11-30",
  all: [
    {
      spec: "@anthropic-ai/claude-code@2.1.332",
      folder: "@anthropic-ai/claude-code",
      integrity: "sha512-tvSh6bLvEbd97APD31AnojOrRC3AmcRj5R8sF8QIQitu3x2ucOb1kKmTkGDw41kjva+CGJfpkt+wYouk6yv56Q=="
    }
  ],
  builds: {
    "linux-x64": [
      {
        spec: "@anthropic-ai/claude-code-linux-x64@2.1.332",
        folder: "@anthropic-ai/claude-code-linux-x64",
        integrity: "sha512-f4JWhzwYutJIHScC7/dYOPX6s28tt7ZADhsOi8zwOHq5fFPEuUeChh2NMfinSg0GrUckYxaeebC4h0DqiKzLcw=="
      },
      {
        spec: "@anthropic-ai/claude-code-linux-x64-musl@2.1.332",
        folder: "@anthropic-ai/claude-code-linux-x64-musl",
        integrity: "sha512-QoQzwipnqRAdBKDAJNJ2Qvl37G6x8nCugfOQa+nuMcGIRgGEOLeWoq3pTLMQRScL37estAQBGH9ygR3WFVbIfw=="
      }
    ],
    "linux-arm64": [
      {
        spec: "@anthropic-ai/claude-code-linux-arm64@2.1.332",
        folder: "@anthropic-ai/claude-code-linux-arm64",
        integrity: "sha512-BlHNEtK38KBPWU31F4lUSS9sHclCyfWbThT1CErvxxH8+XcljYLZlQwdyXBkTD62rw1TgfE1u1a+quMWS0NSJg=="
      },
      {
        spec: "@anthropic-ai/claude-code-linux-arm64-musl@2.1.332",
        folder: "@anthropic-ai/claude-code-linux-arm64-musl",
        integrity: "sha512-jdjkkJLfAQ9M1HbT05tZHQpGNZUEPUebYwW/xpiMypZddB0lNlHlB9mXfOVV/UUPO0JCghj1NSQjxhhJc4L4CA=="
      }
    ],
    "darwin-x64": [
      {
        spec: "@anthropic-ai/claude-code-darwin-x64@2.1.332",
        folder: "@anthropic-ai/claude-code-darwin-x64",
        integrity: "sha512-i0GV2ejBOeHMXs+XPCd1IaJj1GV3VdZl8hiQD6hLMR/N7f4Nt8q4Edj1GYJCKXPLJa/zsE9Uv6r9rZ/ldVFQPQ=="
      }
    ],
    "darwin-arm64": [
      {
        spec: "@anthropic-ai/claude-code-darwin-arm64@2.1.332",
        folder: "@anthropic-ai/claude-code-darwin-arm64",
        integrity: "sha512-L/F5mypyB7SK59cesiAqGv1bVNd+8xTn0LF5kV6EGL6UMhofVJMFlokhDRoxNzANNC5i/5JdzfJyDOKUbZObiA=="
      }
    ]
  }
}

export const grok: Packages = {
  on: "2026-11-30",
  all: [
    {
      spec: "@xai-official/grok@1.0.41",
      folder: "@xai-official/grok",
      integrity: "sha512-eRAK7JzMb/sHVfj8VtLJ26LFqVwiI+PPp6lIMxtN/Ys+/AU5XvE20liO2iDitVw4kAlC5iziomgnemGuy/QAPw=="
    }
  ],
  builds: {
    "linux-x64": [
      {
        spec: "@xai-official/grok-linux-x64@1.0.41",
        folder: "@xai-official/grok-linux-x64",
        integrity: "sha512-5KS0AMeGYQh3++0EEZPKVjAcalFQma8K5SKMhBu1k1OVNpA/lO+fRgecS1/kOsLaGaPDPfQm611Z+a5J9dLfAg=="
      }
    ]
  }
}

export const opencode: Packages = {
  on: "2026-11-30",
  all: [
    {
      spec: "opencode-ai@1.18.33",
      folder: "opencode-ai",
      integrity: "sha512-58P1ffLRXiAY4QeoABqUjqf6DEzm1ihpovvn9Ad+oOLbLiwK/rf88wruT9IATJ7AtNjmi8iA7pC8tN4o5y799Q=="
    }
  ],
  builds: {
    "linux-x64": [
      {
        spec: "opencode-linux-x64@1.18.33",
        folder: "opencode-linux-x64",
        integrity: "sha512-q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTtmYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw=="
      },
      {
        spec: "opencode-linux-x64-baseline@1.18.33",
        folder: "opencode-linux-x64-baseline",
        integrity: "sha512-1KQGBiiDDeL/VHHbHkOvvFo8Jr97WT5+C1tear+p7IcDTnXgVHXqIjU4O4jM4mHQzykTP2i884FCnW5LDa+zCA=="
      }
    ]
  }
}

/** The packages for the platform; empty: no pinned build exists. */
export const pinned = (pins: Packages, { arch, os }: Platform): ReadonlyArray<Pin> => {
  const build = pins.builds[`${os}-${arch}`]
  return build === undefined ? [] : [...pins.all, ...build]
}
