/**
 * fast-check as every property here takes it: a change is judged by the same examples each time, so that a red run is
 * about the change. HOLDFAST_SEED=random looks further, HOLDFAST_SEED=N repeats; a failure prints its seed.
 */
import fc from 'fast-check';

const asked = process.env['HOLDFAST_SEED'] ?? '20261121';
const seed = asked === 'random' ? Math.floor(Math.random() * 2 ** 31) : Number(asked);
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed });

export default fc;
