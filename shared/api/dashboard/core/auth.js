// Sign-in with OpenID Connect: authorization code with PKCE, as a public client.
//
//   signIn ─> issuer's page ─> back with ?code ─> token endpoint ─> token in memory ─> bearer() for each request
//
// Tokens live in this module only. A reload forgets them; the issuer's own session then makes signing in again a short redirect.
// What the redirect must not lose (verifier, state, the address of the screen) is in sessionStorage until it returns.
//
// When a sign-in expires while a person fills in a form, a redirect would lose the form. `signInInWindow` uses a window of its own, which
// hands the code to the page by a BroadcastChannel (an issuer may cut the link between a window and its opener). The code is of no use
// without the verifier, which does not leave the page's memory.

/** @import { SignIn } from './types.js' */

const PENDING = 'duroxide.sign-in';
const CHANNEL = 'duroxide.sign-in';
/** Begins the `state` of a sign-in in a window of its own. */
const IN_WINDOW = 'window.';
/** A token is renewed this long before it ends. */
const EARLY_MS = 30_000;

/** @type {{access: string, refresh: string | null, endsAt: number} | null} */
let tokens = null;
/** @type {SignIn | null} */
let issuer = null;
/** @type {Promise<void> | null} */
let renewal = null;
/** @type {(reason: string) => void} */
let signedOut = () => {};
/** @type {BroadcastChannel | null} */
let waiting = null;

/**
 * Completes a sign-in if the page was loaded by the issuer's redirect. Returns true if this window has only carried a sign-in to another
 * page, and can be closed.
 * @param {SignIn | null} signInSettings
 * @param {(reason: string) => void} onSignedOut called when a token is needed, and there is none that is valid
 * @returns {Promise<boolean>}
 */
export async function begin(signInSettings, onSignedOut) {
  issuer = signInSettings;
  signedOut = onSignedOut;
  const returned = new URLSearchParams(location.search);
  if (returned.get('state')?.startsWith(IN_WINDOW)) {
    history.replaceState(null, '', location.pathname);
    new BroadcastChannel(CHANNEL).postMessage(Object.fromEntries(returned));
    return true;
  }
  const pending = takePending();
  if (!returned.has('state')) return false;
  // The code is of use once: it must not stay in the address or in the browser's list of pages.
  history.replaceState(null, '', location.pathname + (pending?.hash ?? ''));
  if (!issuer || !pending || returned.get('state') !== pending.state) {
    throw new Error('The sign-in was not begun by this page. Sign in again.');
  }
  await redeem(Object.fromEntries(returned), pending.verifier);
  return false;
}

/**
 * @param {Record<string, string>} returned what the issuer has added to the address
 * @param {string} verifier
 */
async function redeem(returned, verifier) {
  const { code } = returned;
  if (!code) throw new Error(`The issuer refused the sign-in: ${returned.error_description ?? returned.error ?? 'no reason given'}.`);
  await exchange({ grant_type: 'authorization_code', code, redirect_uri: page(), code_verifier: verifier });
}

/** Leaves the page for the issuer's. */
export async function signIn() {
  if (!issuer) return;
  const [verifier, state] = [random(), random()];
  sessionStorage.setItem(PENDING, JSON.stringify({ verifier, state, hash: location.hash }));
  location.assign(await authorization(issuer, verifier, state));
}

/** Signs in with a window of its own, and resolves when that is done. The page keeps what was typed. */
export async function signInInWindow() {
  if (!issuer) return;
  // Browsers open a window only during the click: before anything is awaited.
  const opened = window.open('', '_blank', 'popup,width=520,height=720');
  if (!opened) throw new Error('The browser has blocked the window for signing in. Allow it for this page, and try again.');
  waiting?.close();
  const channel = new BroadcastChannel(CHANNEL);
  waiting = channel;
  const [verifier, state] = [random(), IN_WINDOW + random()];
  opened.location.assign(await authorization(issuer, verifier, state));
  const returned = await new Promise((/** @type {(value: Record<string, string>) => void} */ resolve) => {
    channel.addEventListener('message', ({ data }) => data?.state === state && resolve(data));
  });
  channel.close();
  await redeem(returned, verifier);
}

/**
 * The address of the issuer's page.
 * @param {SignIn} settings
 * @param {string} verifier
 * @param {string} state
 */
async function authorization({ authorizationEndpoint, clientId, scope }, verifier, state) {
  const address = new URL(authorizationEndpoint);
  const query = {
    response_type: 'code', client_id: clientId, redirect_uri: page(), scope, state,
    code_challenge: await challenge(verifier), code_challenge_method: 'S256',
  };
  for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value);
  return address;
}

/** Takes a token that the person has from elsewhere. @param {string} token */
export function useToken(token) {
  tokens = { access: token, refresh: null, endsAt: Infinity };
}

/** Forgets the tokens and everything that the page shows, and ends the issuer's session where it offers that. */
export function signOut() {
  tokens = null;
  if (issuer?.endSessionEndpoint) location.assign(issuer.endSessionEndpoint);
  else location.reload();
}

export const isSignedIn = () => tokens !== null;

/** The token for a request, renewed if it is about to end; null if there is none. */
export async function bearer() {
  if (tokens && Date.now() > tokens.endsAt - EARLY_MS && tokens.refresh) {
    renewal ??= renew().finally(() => {
      renewal = null;
    });
    await renewal;
  }
  return tokens?.access ?? null;
}

/** The API has refused the token. */
export function expired() {
  const had = tokens !== null;
  tokens = null;
  signedOut(had ? 'Your sign-in has expired.' : 'Sign in to see this deployment.');
}

async function renew() {
  const refresh = tokens?.refresh ?? '';
  try {
    await exchange({ grant_type: 'refresh_token', refresh_token: refresh });
  } catch {
    // The token may still be valid for a moment. When the API refuses it, the person is asked to sign in.
    if (tokens) tokens.refresh = null;
  }
}

/** @param {Record<string, string>} fields */
async function exchange(fields) {
  if (!issuer) return;
  const body = new URLSearchParams({ ...fields, client_id: issuer.clientId });
  const answer = await fetch(issuer.tokenEndpoint, { method: 'POST', body });
  const reply = await answer.json().catch(() => ({}));
  if (!answer.ok || !reply.access_token) {
    throw new Error(`The issuer gave no token: ${reply.error_description ?? reply.error ?? `it answered ${answer.status}`}.`);
  }
  tokens = {
    access: reply.access_token,
    refresh: reply.refresh_token ?? tokens?.refresh ?? null,
    endsAt: reply.expires_in ? Date.now() + reply.expires_in * 1000 : Infinity,
  };
}

/** @returns {{verifier: string, state: string, hash: string} | null} */
function takePending() {
  const text = sessionStorage.getItem(PENDING);
  sessionStorage.removeItem(PENDING);
  return text ? JSON.parse(text) : null;
}

/** Where the issuer sends the person back to. */
const page = () => location.origin + location.pathname;

/** 256 random bits, as PKCE wants them. */
function random() {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

/** @param {string} verifier */
async function challenge(verifier) {
  return base64url(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))));
}

/** @param {Uint8Array} bytes */
function base64url(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}
