"""Native LM programs for burnish: signatures, predictors, modules and prompt files.

    from burnish_programs import Module, Predict

    answer = Predict("question -> answer: float", instruction="Answer with a number.")
    with models(task=model):
        prediction = await answer(question="What is 6 times 7?")

A program reads its instruction and demos from the candidate in force when it renders a prompt, so that an engine can
run many candidates side by side over one program.
"""

from burnish import models as models
from burnish_programs._module import Module as Module
from burnish_programs._predict import ChainOfThought as ChainOfThought
from burnish_programs._predict import Predict as Predict
from burnish_programs._prediction import Prediction as Prediction
from burnish_programs._prompt import PromptFile as PromptFile
from burnish_programs._prompt import PromptProgram as PromptProgram
from burnish_programs._signature import Field as Field
from burnish_programs._signature import Signature as Signature
from burnish_programs._signature import SignatureError as SignatureError
from burnish_programs._target import ModuleTarget as ModuleTarget
from burnish_programs._use import program_of as program_of
