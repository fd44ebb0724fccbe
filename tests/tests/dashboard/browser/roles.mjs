// A reader sees what an operator could do, with the reason why they cannot; an operator can.

import assert from 'node:assert/strict';
import { arrive, instance, see, until } from './kit/actions.mjs';
import { signedIn } from './kit/sign_in.mjs';

const ORDER = 'order-1047';

export default async function scenario(stage) {
  const reader = await signedIn(stage, 'reader', instance(ORDER));
  const cancel = reader.getByRole('button', { name: /^Cancel/ }).first();
  await cancel.waitFor();
  assert.equal(await cancel.getAttribute('aria-disabled'), 'true');
  assert.match(await cancel.innerText(), /needs the role operator/);
  await cancel.focus();
  await reader.keyboard.press('Enter');
  await reader.getByRole('status').getByText('This needs the role operator. You have the role reader.').waitFor();
  assert.equal(await reader.getByRole('dialog').count(), 0);
  assert.ok(stage.requests.every(({ method }) => method === 'GET'), 'nothing was sent');
  const pause = reader.getByRole('button', { name: /^Pause/ }).first();
  assert.match(await pause.innerText(), /needs the role operator/);
  const send = reader.getByRole('button', { name: /^Send/ }).first();
  assert.match(await send.innerText(), /needs the role client/);
  await reader.getByRole('link', { name: 'Dead letters' }).click();
  await see(reader, 'You may not see dead letters');
  await see(reader, 'This needs the role operator.');
  await reader.getByRole('link', { name: 'Batches' }).click();
  await see(reader, 'You may not see batches');
  await reader.goto(`${stage.world.api}/#/batches/new?status=Failed`);
  await see(reader, 'This cannot be done');
  await reader.getByRole('link', { name: 'Change the filters' }).click();
  assert.match(await reader.getByRole('button', { name: /^Act on all/ }).innerText(), /needs the role operator/);
  await reader.getByRole('link', { name: 'Start', exact: true }).click();
  await arrive(reader, /Start/);
  const start = reader.getByRole('button', { name: /^Start/ }).first();
  assert.equal(await start.getAttribute('aria-disabled'), 'true');

  const operator = await signedIn(stage, 'operator', instance(ORDER));
  await operator.getByRole('button', { name: /^Cancel/ }).first().click();
  const dialog = operator.getByRole('dialog');
  await dialog.getByRole('button', { name: /^Cancel/ }).click();
  await until('it is cancelled', async () => (await operator.locator('main').innerText()).includes('Cancelled'));
  await operator.getByRole('button', { name: 'Rewind…' }).waitFor();
}
