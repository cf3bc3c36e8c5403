/** Headers of every page: they limit what browsers may do with it. `blob:` shows pictures that a person chose, before they are sent. */
export const HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; media-src 'self'; " +
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  // Not `no-referrer`: with it browsers send `Origin: null` with our own forms.
  "referrer-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "x-frame-options": "DENY",
  "permissions-policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
}
